"""The walk with faults: processes are killed, Redis is flushed, PostgreSQL restarts, and the bank fails in every way.

An answer may be lost, so a client knows only what was answered to it: it repeats a creation or a refund with its key
until the outcome is known; a cancellation or a payment without an answer may have happened or not. Within SETTLED_S_MAX
of the bank's return the queries of tests/walk/books.py find nothing, and no acknowledged change is lost.
FAULT_WALK_OPERATIONS sets the number of operations, FAULT_WALK_SEED the random choices.
"""

import asyncio
import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import msgspec
import pytest
from aiohttp import web
from redis.asyncio import Redis

from domain.events import EventKind
from tests.support.boleto_merchant import boleto_body, in_days, listen
from tests.support.dual_merchant import dual_body
from tests.support.listening import listening
from tests.support.merchant import (
    Answer,
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    database_of,
    kill_process,
    new_merchant,
)
from tests.support.system import TWO_APIS, System, remove_home, temporary_home
from tests.walk.books import UNDONE, faults, webhook_faults

FULL = os.environ.get("FAULT") == "full"
OPERATIONS = int(os.environ.get("FAULT_WALK_OPERATIONS", "2500" if FULL else "100"))
SEED = int(os.environ.get("FAULT_WALK_SEED", "11"))
CLIENTS = 10
SHARES = ("0", "0.01", "0.33", "33.33", "50", "100")
"""A partner's shares, in percent."""
FIRST_SHARE = "33.33"
FAULTS = ("down", "slow", "lost_reply", "timeout_before", "cut", "error500", "html")
FAULT_S = (0.3, 1.5)
REST_S = (0.5, 1.5)
SETTLED_S_MAX = 200.0
"""Enough for the bank's return, the leases of killed workers, and the longest wait before an order is retried."""
SURE_TRIES = 80
GONE = (aiohttp.ClientError, OSError, TimeoutError)
DESTINATION = {"pix_key": "52998224725", "document": "52998224725"}

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def own_system() -> Iterator[System]:
    # No staff release refunds above the daily bound here, so the bound is raised (docs/decisions/0030).
    system = System(
        temporary_home(), env={"WORKER_PROCESSES": "2", **TWO_APIS, "REFUND_TRANSFERS_CENTS_MAX": "1000000000"}
    )
    try:
        yield system.start()
        assert system.stop() == 0, system.said()[-4000:]
    finally:
        if system.running():
            system.kill()
        remove_home(system.home)


class KnownCharge:
    """A charge as clients know it: acknowledged changes must be there in the end, unanswered ones may be."""

    def __init__(self, client: ApiClient, test: bool, shown: dict[str, Any], amount: int) -> None:
        self.client = client
        self.test = test
        self.charge_id = str(shown["charge_id"])
        self.number = shown["boleto"]["nosso_numero"] if shown["boleto"] else None
        self.has_cob = shown["payment_method"] in ("pix", "boleto_pix")
        self.amount = amount
        self.code: str | None = None
        """The partner's integrador_code, if it has one."""
        self.cancelled = False
        self.received_min = 0
        self.received_max = 0
        self.version = 1


class KeyedRequest:
    """A request with an idempotency key, and the ids that answers to it have named."""

    def __init__(self, client: ApiClient, test: bool, path: str, body: Any) -> None:
        self.client, self.test, self.path, self.body, self.key = client, test, path, body, str(uuid4())
        self.made: set[str] = set()
        self.answers_201 = 0
        self.sure = True
        """Whether its outcome is known: something was created, or it was refused."""


class Chaos:
    def __init__(self, system: System, merchants: list[ApiMerchant], partner: ApiMerchant, code: str) -> None:
        self.system = system
        self.merchants = merchants
        self.partner = partner
        self.code = code
        self.agreeing = asyncio.Lock()
        self.agreed: list[tuple[str, bool]] = []
        """The shares in order, and whether the command reported success."""
        self.chance = random.Random(SEED)
        self.left = OPERATIONS
        self.said: Counter[str] = Counter()
        self.charges: list[KnownCharge] = []
        self.asked: list[KeyedRequest] = []
        self.over = False
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20))

    async def run_client(self, number: int) -> None:
        chance = random.Random(SEED * 1000 + number)
        steps = {
            self.create: 6, self.pay: 6, self.refund: 4, self.look: 3, self.cancel: 2, self.redate: 2, self.again: 2,
            self.withdraw: 2, self.end: 1, self.agree: 1,
        }  # fmt: skip
        while self.left > 0:
            self.left -= 1
            step = chance.choices(list(steps), list(steps.values()))[0] if self.charges else self.create
            await step(chance)

    async def ask(self, client: ApiClient, what: str, method: str, path: str, **more: Any) -> Answer | None:
        """The answer, or None when the connection was cut and the outcome is unknown."""
        try:
            answer = await client.ask(method, path, **more)
        except GONE:
            self.said[f"{what} cut"] += 1
            return None
        self.said[f"{what} {answer.status} {answer.code}".rstrip()] += 1
        assert answer.status < 500 or answer.code in ("BANK_UNAVAILABLE", "SERVICE_UNAVAILABLE"), answer.raw
        return answer

    # Operations of clients

    async def create(self, chance: random.Random) -> None:
        merchant, test = chance.choice(self.merchants), chance.random() < 0.35
        client = merchant.sandbox if test else merchant.production
        amount = f"{chance.randint(1, 999)}.{chance.randint(10, 99)}"
        kind = chance.choice(("pix", "pix", "boleto", "boleto_hibrido", "boleto_pix", "dual"))
        path, body = f"/v1/charges/{kind}", client.body(amount)
        if kind == "dual":
            body = dual_body(amount)
        elif kind != "pix":
            path, body = "/v1/charges/boleto", boleto_body(amount, tipo=kind)
        if kind != "pix" and chance.random() < 0.6:
            body["integrador_code"] = self.code
        asked = KeyedRequest(client, test, path, body)
        self.asked.append(asked)
        for _ in range(chance.choice((1, 3, 20))):
            if await self.send(asked, kind):
                return
            await asyncio.sleep(chance.uniform(0.05, 0.3))

    async def send(self, asked: KeyedRequest, what: str) -> bool:
        """Send the request. Returns whether its outcome is known now."""
        asked.sure = False
        answer = await self.ask(asked.client, what, "POST", asked.path, json=asked.body, key=asked.key)
        if answer is None or answer.status >= 500 or answer.code == "IDEMPOTENCY_IN_PROGRESS":
            return False
        asked.sure = True
        if answer.status in (200, 201):
            made = next(
                str(answer.body[name]) for name in ("refund_id", "withdrawal_id", "charge_id") if name in answer.body
            )
            if answer.status == 201:
                # Two clients may send one key concurrently: a replay's answer may arrive before the first answer.
                asked.answers_201 += 1
                assert asked.answers_201 == 1, "one key was answered 201 twice"
            if not asked.made and "public_id" in answer.body:
                cents = int(answer.body["amount"].replace(".", ""))
                self.charges.append(KnownCharge(asked.client, asked.test, answer.body, cents))
                self.charges[-1].code = asked.body.get("integrador_code")
            asked.made.add(made)
            assert len(asked.made) == 1, "one key created two things"
        else:
            assert not asked.made, f"a request that had created something is refused: {answer.raw!r}"
        return True

    async def again(self, chance: random.Random) -> None:
        """Repeat an earlier key, with its body or with another."""
        asked = chance.choice(self.asked)
        if asked.made and chance.random() < 0.4:
            body = {**asked.body, "external_id": "another"}
            answer = await self.ask(asked.client, "otherwise", "POST", asked.path, json=body, key=asked.key)
            assert answer is None or answer.status >= 500 or answer.code == "IDEMPOTENCY_KEY_REUSED", answer.raw
        else:
            await self.send(asked, "again")

    async def cancel(self, chance: random.Random) -> None:
        charge = chance.choice(self.charges[-30:])
        answer = await self.ask(charge.client, "cancel", "POST", f"/v1/charges/{charge.charge_id}/cancel")
        if answer is not None and answer.status == 200:
            assert not charge.cancelled, "cancelled twice"
            charge.cancelled = True
            assert answer.body["status"] == "cancelled"

    async def redate(self, chance: random.Random) -> None:
        charge = chance.choice([each for each in self.charges if each.number] or self.charges)
        body = {"charge_id": charge.charge_id, "due_date": in_days(chance.randint(1, 60))}
        answer = await self.ask(charge.client, "redate", "PATCH", "/v1/charges/due-date", json=body)
        if answer is not None and answer.status == 200:
            assert answer.body["due_date"] is not None

    async def pay(self, chance: random.Random) -> None:
        charge = chance.choice(self.charges[-30:])
        cents = chance.choice(
            (charge.amount, charge.amount, charge.amount, charge.amount + 3, max(1, charge.amount // 3))
        )
        if charge.test and chance.random() < 0.5:
            path, body = f"/v1/charges/{charge.charge_id}/simulate-payment", None
            cents = charge.amount
        elif charge.test:
            path, body = f"/v1/sandbox/charges/{charge.charge_id}/pay", {"amount": f"{cents // 100}.{cents % 100:02}"}
        else:
            await self.pay_at_bank(charge, cents, chance)
            return
        charge.received_max += cents
        answer = await self.ask(charge.client, path.rpartition("/")[2], "POST", path, json=body)
        if answer is not None and answer.status == 200:
            charge.received_min += cents
        elif answer is not None and answer.status < 500:
            charge.received_max -= cents

    async def pay_at_bank(self, charge: KnownCharge, cents: int, chance: random.Random) -> None:
        asked: dict[str, Any] = {"amount": f"{cents // 100}.{cents % 100:02}", "force": chance.random() < 0.2}
        if charge.number is not None and not (charge.has_cob and chance.random() < 0.5):
            asked["number"] = charge.number
        else:
            asked |= {"charge_id": charge.charge_id, "force": False}
        charge.received_max += cents
        try:
            async with self.http.post(f"{self.system.bank_url}/simulated/pay", json=asked) as answer:
                self.said[f"bank pays {answer.status}"] += 1
                if answer.status == 200:
                    charge.received_min += cents
                elif answer.status < 500:
                    charge.received_max -= cents
        except GONE:
            self.said["bank pays cut"] += 1

    async def refund(self, chance: random.Random) -> None:
        paid = [charge for charge in self.charges if charge.received_max]
        charge = chance.choice(paid or self.charges)
        body: dict[str, Any] = {"destination": DESTINATION} if charge.number else {}
        if chance.random() < 0.6:
            body["amount"] = f"{max(1, charge.amount // chance.randint(1, 4)) / 100:.2f}"
        asked = KeyedRequest(charge.client, charge.test, f"/v1/charges/{charge.charge_id}/refunds", body)
        self.asked.append(asked)
        for _ in range(chance.choice((1, 5))):
            if await self.send(asked, "refund"):
                return

    async def withdraw(self, chance: random.Random) -> None:
        """Withdraw some of the balance, and sometimes cancel the withdrawal before it is sent."""
        client = chance.choice([*self.merchants, self.partner]).production
        asked = KeyedRequest(client, False, "/v1/withdrawals", {"amount": f"{chance.randint(1, 20)}.00"})
        self.asked.append(asked)
        if await self.send(asked, "withdraw") and asked.made and chance.random() < 0.3:
            path = f"/v1/withdrawals/{next(iter(asked.made))}/cancel"
            await self.ask(client, "cancel withdrawal", "POST", path)

    async def agree(self, chance: random.Random) -> None:
        """Agree another share for the partner's new charges."""
        share = chance.choice(SHARES)
        async with self.agreeing:
            done = await asyncio.to_thread(self.system.quita, "integrator", "set", self.code, "--share", share)
            self.agreed.append((share, done.returncode == 0))
        self.said[f"agree {done.returncode}"] += 1

    async def look(self, chance: random.Random) -> None:
        """Read a charge, which must be no older than it was read before."""
        charge = chance.choice(self.charges)
        before, cancelled = charge.version, charge.cancelled
        answer = await self.ask(charge.client, "look", "GET", f"/v1/charges/{charge.charge_id}")
        if answer is None or answer.status >= 500:
            return
        assert answer.status == 200, answer.raw
        assert answer.body["version"] >= before, "an older state than was read before"
        assert not cancelled or answer.body["status"] == "cancelled"
        charge.version = max(charge.version, answer.body["version"])

    async def end(self, chance: random.Random) -> None:
        charge = chance.choice(self.charges)
        if charge.test:
            what = chance.choice(("expire", "fail"))
            await self.ask(charge.client, what, "POST", f"/v1/sandbox/charges/{charge.charge_id}/{what}")

    # Faults

    async def cause_faults(self) -> None:
        while not self.over:
            await self.fault(self.chance.choice(FAULTS))
            await asyncio.sleep(self.chance.uniform(*FAULT_S))
            # A process that was killed a moment ago may not be replaced yet.
            with contextlib.suppress(ProcessLookupError, IndexError):
                await self.kill()
            await self.fault("up")
            await asyncio.sleep(self.chance.uniform(*REST_S))

    async def kill(self) -> None:
        victim = self.chance.random()
        if victim < 0.3:
            kill_process(self.system, "worker", self.chance.randint(0, 1))
        elif victim < 0.5:
            kill_process(self.system, "api", self.chance.randint(0, 1))
        elif victim < 0.58:
            kill_process(self.system, "postgres")
        elif victim < 0.75:
            redis = Redis.from_url(self.system.redis_url)
            with contextlib.suppress(Exception):
                await redis.flushall()
            await redis.aclose()

    async def fault(self, fault: str) -> None:
        for _ in range(SURE_TRIES):
            with contextlib.suppress(*GONE):
                async with self.http.post(f"{self.system.bank_url}/simulated/fault", json={"fault": fault}) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)
        raise AssertionError("the bank's fault switch does not answer")

    # Afterwards

    async def resolve_unknown_outcomes(self) -> None:
        """Repeat half of the requests with unknown outcomes until they are known; the stored keys show the others'."""
        for asked in [each for each in self.asked if not each.sure][::2]:
            for _ in range(SURE_TRIES):
                if await self.send(asked, "sure"):
                    break
                await asyncio.sleep(0.1)
            assert asked.sure, "the outcome is still unknown after all repeats"


class Receiver:
    """The webhook receiver of all merchants; it answers 503 to one in twenty deliveries."""

    def __init__(self) -> None:
        self.received_bodies: dict[str, dict[str, list[bytes]]] = {}
        self._chance = random.Random(SEED)

    async def receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self._chance.random() < 0.05:
            return web.Response(status=503)
        received = self.received_bodies.setdefault(request.match_info["account_id"], {})
        received.setdefault(msgspec.json.decode(body)["event_id"], []).append(body)
        return web.Response(status=200)


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[str, Receiver]]:
    receiving = Receiver()
    app = web.Application()
    app.router.add_post("/{account_id}", receiving.receive)
    async with listening(app) as url:
        yield url, receiving


async def wait_until_settled(books: Books, accounts: list[UUID], receiver: Receiver) -> float:
    """Wait until the books have no fault; return how many seconds that took. Fail with what is left at SETTLED_S_MAX.

    A boleto_reconcile order may be left: it only looks for a boleto that may never have been requested.
    """
    began = time.monotonic()
    while True:
        wrong = await faults(books, accounts, but={UNDONE})
        wrong += [
            f"left undone: {tuple(row)}"
            for row in await books.fetch(
                "SELECT kind, state, attempts, due_at, outcome FROM bank_order WHERE account_id = ANY($1::uuid[])"
                " AND kind <> 'boleto_reconcile'", accounts,
            )
        ]  # fmt: skip
        for account_id in accounts:
            wrong += await webhook_faults(books, account_id, receiver.received_bodies.get(str(account_id), {}))
        took_s = time.monotonic() - began
        if not wrong:
            return took_s
        assert took_s < SETTLED_S_MAX, "\n".join([f"not settled after {took_s:.0f} s", *wrong])
        await asyncio.sleep(0.5)


async def test_after_a_walk_with_faults_the_books_settle_and_no_acknowledged_change_is_lost(
    own_system: System, receiver: tuple[str, Receiver]
) -> None:
    print(f"FAULT_WALK_SEED={SEED} FAULT_WALK_OPERATIONS={OPERATIONS}")
    url, receiving = receiver
    async with AsyncExitStack() as opened:
        *merchants, partner = [await opened.enter_async_context(new_merchant(own_system)) for _ in range(3)]
        everybody = [*merchants, partner]
        accounts = [merchant.record.account_id for merchant in everybody]
        account_id = str(partner.record.account_id)
        code = own_system.json("integrator", "create", "Parceira", "--share", FIRST_SHARE, "--account-id", account_id)[
            "integrador_code"
        ]
        async with database_of(own_system) as books:
            for merchant in everybody:
                await listen(own_system, books, merchant.production, f"{url}/{merchant.record.account_id}")
                await merchant.production.token()
                await merchant.sandbox.token()
            await books.execute("UPDATE webhook_endpoint SET kinds = $1", [str(kind) for kind in EventKind])
        chaos = Chaos(own_system, merchants, partner, code)
        breaking = asyncio.create_task(chaos.cause_faults())
        try:
            await asyncio.gather(*(chaos.run_client(number) for number in range(CLIENTS)))
        finally:
            chaos.over = True
            await breaking  # raises what ended the task early, which would leave a fault on
            await chaos.fault("up")
        try:
            await chaos.resolve_unknown_outcomes()
        finally:
            await chaos.http.close()
        print(*(f"{count:6} {what}" for what, count in sorted(chaos.said.items())), sep="\n")
        async with database_of(own_system) as books:
            took_s = await wait_until_settled(books, accounts, receiving)
            print(f"settled {took_s:.1f} s after the bank's return")
            await assert_nothing_is_lost(chaos, books, accounts)
        assert_books_are_clean(own_system)
        for merchant in everybody:
            for client in (merchant.sandbox, merchant.production):
                await assert_feed_and_ledger_are_dense(client)


async def assert_nothing_is_lost(chaos: Chaos, books: Books, accounts: list[UUID]) -> None:
    rows = await books.fetch(
        "SELECT key, resource_id::text FROM idempotency WHERE account_id = ANY($1::uuid[])", accounts
    )
    kept = {row["key"]: row["resource_id"] for row in rows}
    said = {asked.key: next(iter(asked.made)) for asked in chaos.asked if asked.made}
    assert {key: kept.get(key) for key in said} == said, "a created resource is missing"
    unsure = {asked.key for asked in chaos.asked if not asked.sure}
    assert set(kept) - unsure <= set(said), "the key of a refused request is stored"
    things = await books.fetch(
        "SELECT charge_id::text FROM charge WHERE account_id = ANY($1::uuid[]) UNION ALL"
        " SELECT refund_id::text FROM refund WHERE account_id = ANY($1::uuid[]) UNION ALL"
        " SELECT withdrawal_id::text FROM withdrawal WHERE account_id = ANY($1::uuid[])", accounts,
    )  # fmt: skip
    assert sorted(row[0] for row in things) == sorted(kept.values()), "a resource without its key, or created twice"
    await assert_shares_are_as_agreed(chaos, books)
    for charge in chaos.charges:
        row = await books.fetchrow(
            "SELECT status, version, (SELECT coalesce(sum(amount_cents), 0) FROM payment p"
            " WHERE p.charge_id = c.charge_id)::bigint AS credited FROM charge c WHERE charge_id = $1::uuid",
            charge.charge_id,
        )
        assert row is not None
        assert not charge.cancelled or row["status"] == "cancelled", "an acknowledged cancellation is lost"
        assert row["version"] >= charge.version
        assert charge.received_min <= row["credited"] <= charge.received_max, (
            charge.charge_id, charge.received_min, row["credited"], charge.received_max,
        )  # fmt: skip


async def assert_shares_are_as_agreed(chaos: Chaos, books: Books) -> None:
    """Assert that the agreed shares are stored, that charges have their partner's code, and that his balance is right.
    The share of each payment is checked by books.sql."""
    rows = await books.fetch(
        "SELECT share_bps FROM integrator_share WHERE integrador_code = $1 ORDER BY since", chaos.code
    )
    kept = [row["share_bps"] for row in rows]
    assert kept[0] == round(float(FIRST_SHARE) * 100)
    reached = {0}  # possible positions in the stored shares; agreeing on the present share adds no row
    for share, done in chaos.agreed:
        bps = round(float(share) * 100)
        then = {at for at in reached if kept[at] == bps} | {at + 1 for at in reached if kept[at + 1 : at + 2] == [bps]}
        reached = then if done else reached | then
    assert len(kept) - 1 in reached, (kept, chaos.agreed)
    brought = await books.fetch(
        "SELECT charge_id::text, integrador_code FROM read_charge WHERE charge_id = ANY($1::uuid[])",
        [charge.charge_id for charge in chaos.charges],
    )
    assert {row["charge_id"]: row["integrador_code"] for row in brought} == {
        charge.charge_id: charge.code for charge in chaos.charges
    }
    given = await books.fetchrow(
        "SELECT (SELECT coalesce(sum(share_cents), 0) FROM partner_share WHERE partner_id = $1 AND NOT test)::bigint"
        " AS shares, (SELECT coalesce(sum(amount_cents), 0) FROM withdrawal"
        " WHERE account_id = $1 AND status = 'succeeded')::bigint AS withdrawn",
        chaos.partner.record.account_id,
    )
    assert given is not None
    balance = (await chaos.partner.production.balance()).replace(".", "")
    assert int(balance) == given["shares"] - given["withdrawn"]
    print(f"{len(kept)} shares agreed, {given['shares']} cents given, {given['withdrawn']} of them withdrawn")


async def assert_feed_and_ledger_are_dense(client: ApiClient) -> None:
    """Assert that feed and ledger are dense, and that the balance is the sum of the ledger."""
    events, lines = await client.events(), await client.ledger()
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert [line["sequence"] for line in lines] == list(range(1, len(lines) + 1))
    total = sum(int(line["amount"].replace(".", "")) * (1 if line["direction"] == "credit" else -1) for line in lines)
    balance = await client.balance()
    assert int(balance.replace(".", "")) == total
    assert not lines or lines[-1]["balance_after"] == balance
