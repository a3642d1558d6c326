"""Boletos while the bank misbehaves and processes die: afterwards the bank's books and ours agree.

The bank has one open boleto for each pending charge, and none for a failed creation or a cancelled charge. Every cent
that the bank received is on our books once. A key that is sent until the answer is 201 has made one boleto.
BOLETO_CHAOS_OPERATIONS sets the number of operations: 300 in a normal run, 3,000 with FAULT=full.
"""

import asyncio
import contextlib
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec
import pytest
from msgspec import Struct
from redis.asyncio import Redis

from domain.boleto.terms import PaymentTerms, fine_begins, last_day
from tests.support.boleto_merchant import boleto_body, in_days
from tests.support.merchant import (
    Answer,
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    database_of,
    kill_process,
    new_merchant,
    until_answer,
)
from tests.support.orders import including_ended_orders
from tests.support.system import TWO_APIS, System, remove_home, temporary_home

FULL = os.environ.get("FAULT") == "full"
OPERATIONS = int(os.environ.get("BOLETO_CHAOS_OPERATIONS", "3000" if FULL else "300"))
SEED = int(os.environ.get("BOLETO_CHAOS_SEED", "7"))
CLIENTS = 12
FAULTS = ("down", "slow", "lost_reply", "timeout_before", "cut", "error500", "html", "refuse")
FAULT_S = (0.3, 2.0)
REST_S = (0.5, 1.5)
DETAIL_CACHE_S = 30  # the real bank repeats its last answer to a second request (reference: Cobrancas, detail)
AGREE_S_MAX = 100.0  # the bank comes back, and orders that may have reached it are checked a last time
GONE = (aiohttp.ClientError, OSError, TimeoutError)
KEPT_TRYING = 60
KEPT_TRYING_S = 90.0  # far longer than any fault, and than PostgreSQL needs to come back on a busy machine

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def own_system() -> Iterator[System]:
    system = System(temporary_home(), env={"WORKER_PROCESSES": "2", **TWO_APIS})
    try:
        yield system.start()
        assert system.stop() == 0, system.said()[-4000:]
    finally:
        if system.running():
            system.kill()
        remove_home(system.home)


@pytest.fixture
async def merchant(own_system: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(own_system) as opened:
        await opened.production.token()
        yield opened


class Standing(Struct, frozen=True):
    """A boleto in both books; the fields of the side that does not have the boleto are None."""

    number: str
    at_bank: str | None
    bank_due: Any
    bank_fine_from: Any
    bank_late_days: int | None
    received_cents: int
    status: str | None
    due_on: Any
    terms: bytes | None
    credited_cents: int


_STANDING = """
SELECT coalesce(b.number, s.number),
       CASE WHEN b.number IS NULL THEN NULL WHEN b.payments > 0 THEN 'paid'
            WHEN b.written_off_at IS NOT NULL THEN 'written_off' ELSE 'open' END,
       b.due_on, b.fine_from, b.late_days,
       coalesce((SELECT sum(p.amount_cents) FROM simulated_boleto_payment p
                 WHERE p.world = 'production' AND p.number = b.number AND NOT p.called_off), 0)::bigint,
       c.status, s.due_on, s.terms,
       coalesce((SELECT sum(p.amount_cents) FROM payment p WHERE p.charge_id = s.charge_id), 0)::bigint
FROM (SELECT * FROM simulated_boleto WHERE world = 'production') b
FULL JOIN (SELECT s.* FROM boleto s JOIN charge c USING (charge_id, account_id) WHERE NOT c.test) s ON s.number =
b.number LEFT JOIN charge c ON c.charge_id = s.charge_id
"""


_ORDERS = including_ended_orders("""
SELECT kind, state, attempts, created_at, due_at, lease_until, deadline, outcome FROM bank_order
WHERE request::text LIKE '%' || $1 || '%' OR charge_id IN (SELECT charge_id FROM boleto WHERE number = $1)
ORDER BY created_at
""")


async def standings(books: Books) -> list[Standing]:
    return [Standing(*row) for row in await books.fetch(_STANDING)]


def terms_agree(boleto: Standing) -> bool:
    """Whether the fine's first day and the last day to pay at the bank follow from our due date."""
    if boleto.terms is None:
        return (boleto.bank_fine_from, boleto.bank_late_days) == (None, 0)
    terms = msgspec.json.decode(boleto.terms, type=PaymentTerms)
    last = boleto.due_on + timedelta(days=boleto.bank_late_days or 0)
    return bool(boleto.bank_fine_from == fine_begins(boleto.due_on) and last == last_day(terms, boleto.due_on))


def agrees(boleto: Standing) -> bool:
    """Whether the bank's boleto and ours have the same money, state, due date and terms."""
    if boleto.received_cents != boleto.credited_cents:
        return False
    match boleto.status:
        case None | "cancelled":
            return boleto.at_bank == "written_off"
        case "pending" | "expired":
            return boleto.at_bank == "open" and boleto.bank_due == boleto.due_on and terms_agree(boleto)
        case "paid":
            return boleto.at_bank == "paid"
    return False


async def wait_until_books_agree(books: Books) -> None:
    """Waits until both books agree; fails with a boleto that still differs when the time is over."""
    deadline = asyncio.get_running_loop().time() + AGREE_S_MAX
    while True:
        wrong = [boleto for boleto in await standings(books) if not agrees(boleto)]
        if not wrong:
            return
        if asyncio.get_running_loop().time() >= deadline:
            orders = await books.fetch(_ORDERS, wrong[0].number)
            raise AssertionError(f"{len(wrong)} boletos differ, such as {wrong[0]}: {[tuple(row) for row in orders]}")
        await asyncio.sleep(0.25)


class Chaos:
    """Clients that issue, cancel, re-date and look up boletos, payers who pay, and a task that causes faults."""

    def __init__(self, system: System, client: ApiClient, chance: random.Random) -> None:
        self.system = system
        self.client = client
        self.chance = chance
        self.left = OPERATIONS
        self.answers_counted: Counter[str] = Counter()
        self.made: dict[str, set[str]] = {}
        """All charges that answers have named for each key."""
        self.known: list[str] = []
        self.numbers: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.redated: dict[str, str] = {}
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20))
        self.over = False

    async def run_client(self) -> None:
        while self.left > 0:
            self.left -= 1
            dice = self.chance.random()
            if dice < 0.5 or not self.known:
                await self.issue()
            elif dice < 0.65:
                await self.cancel()
            elif dice < 0.8:
                await self.redate()
            elif dice < 0.95:
                await self.pay()
            else:
                await self.ask("GET", f"/v1/charges/{self.chance.choice(self.known)}")

    async def ask(self, method: str, path: str, **more: Any) -> Answer | None:
        """Sends a request; None when the connection was cut, and the outcome is unknown."""
        try:
            answer = await self.client.ask(method, path, **more)
        except GONE:
            self.answers_counted[f"{method} cut"] += 1
            return None
        self.answers_counted[f"{method} {path.rsplit('/', 1)[-1][:10] if method != 'GET' else ''} {answer.status}"] += 1
        assert answer.status < 500 or answer.status in (502, 503), answer.raw
        return answer

    async def issue(self) -> None:
        key, body = str(uuid4()), boleto_body(f"{self.chance.randint(1, 9999)}.{self.chance.randint(10, 99)}")
        body["tipo"] = self.chance.choice(["boleto", "boleto_hibrido"])
        if self.chance.random() < 0.5:
            body |= {"fine": {"percent": "2.00"}, "payable_days_after_due": self.chance.randint(2, 9)}
        # Half of the clients give up after one refusal; the others send the request again until they have a boleto.
        patient = self.chance.random() < 0.5
        gives_up_at = asyncio.get_running_loop().time() + KEPT_TRYING_S
        while True:
            answer = await self.ask("POST", "/v1/charges/boleto", json=body, key=key)
            if answer is not None and answer.status in (200, 201):
                charge_id = answer.body["charge_id"]
                self.made.setdefault(key, set()).add(charge_id)
                self.known.append(charge_id)
                self.numbers[charge_id] = answer.body["boleto"]["nosso_numero"]
                return
            if not patient:
                return
            assert asyncio.get_running_loop().time() < gives_up_at, (
                f"no boleto after {KEPT_TRYING_S} s: {self.answers_counted}"
            )
            await asyncio.sleep(self.chance.uniform(0.05, 0.3))

    async def cancel(self) -> None:
        charge_id = self.chance.choice(self.known)
        answer = await self.ask("POST", f"/v1/charges/{charge_id}/cancel")
        if answer is not None and answer.status == 200:
            self.cancelled.add(charge_id)

    async def redate(self) -> None:
        charge_id, due = self.chance.choice(self.known), in_days(self.chance.randint(1, 60))
        await self.ask("PATCH", "/v1/charges/due-date", json={"charge_id": charge_id, "due_date": due})

    async def pay(self) -> None:
        """Pays as a payer's bank does, which first checks that the boleto is open."""
        charge_id = self.chance.choice(self.known)
        body = {"number": self.numbers[charge_id]}
        if self.chance.random() < 0.3:
            await self.send_callbacks(body["number"])
        try:
            async with self.http.post(f"{self.system.bank_url}/simulated/pay", json=body) as answer:
                self.answers_counted[f"pay {answer.status}"] += 1
        except GONE:
            self.answers_counted["pay cut"] += 1

    async def send_callbacks(self, number: str) -> None:
        """Sends the bank's callback twice before anything was paid, with this number and the next, which may not be a
        boleto's yet."""
        early = f"{int(number) + 1:020}"
        for _ in range(2):
            with contextlib.suppress(*GONE):
                path = f"{self.system.base_url}/bank/local/boletos"
                await (await self.http.post(path, json=[{"id": number}, {"id": early}])).read()

    async def cause_faults(self) -> None:
        """Causes one fault of the bank after another, and meanwhile kills a worker, an API process or PostgreSQL, or
        flushes Redis."""
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
        elif victim < 0.4:
            kill_process(self.system, "api", self.chance.randint(0, 1))
        elif victim < 0.45:
            kill_process(self.system, "postgres")
        elif victim < 0.6:
            redis = Redis.from_url(self.system.redis_url)
            await redis.flushall()
            await redis.aclose()

    async def fault(self, fault: str) -> None:
        await self.choose("fault", fault=fault)

    async def choose(self, switch: str, **how: Any) -> None:
        """Sets how the bank behaves from now on. The bank stores this in its books, which may be away for a moment."""

        async def chosen() -> bool:
            async with self.http.post(f"{self.system.bank_url}/simulated/{switch}", json=how) as answer:
                assert answer.status in (200, 503), await answer.text()
                return answer.status == 200

        await until_answer(chosen, within_s=60)


async def test_after_chaos_the_banks_books_and_ours_agree_and_each_key_made_one_boleto(
    own_system: System, merchant: ApiMerchant
) -> None:
    chaos = Chaos(own_system, merchant.production, random.Random(SEED))
    await chaos.choose("boleto-rules", detail_cache_s=DETAIL_CACHE_S)
    breaking = asyncio.create_task(chaos.cause_faults())
    try:
        await asyncio.gather(*(chaos.run_client() for _ in range(CLIENTS)))
    finally:
        chaos.over = True
        await breaking  # raises what ended the task early, which would leave the bank broken
        await chaos.fault("up")
        # With the cache on, the bank repeats its last answers for half a minute.
        await chaos.choose("boleto-rules", detail_cache_s=0)
        await chaos.http.close()
    print(dict(chaos.answers_counted))
    async with database_of(own_system) as books:
        await wait_until_books_agree(books)
        rows = await books.fetch(
            including_ended_orders("SELECT kind, state, count(*) FROM bank_order GROUP BY 1, 2 ORDER BY 1, 2")
        )
        print([tuple(row) for row in rows])
        double = [key for key, made in chaos.made.items() if len(made) != 1]
        assert not double, "a key made two charges"
        charges: int = await books.fetchval(
            "SELECT count(*) FROM charge WHERE account_id = $1 AND NOT test", merchant.record.account_id
        )
        keys: int = await books.fetchval(
            "SELECT count(*) FROM idempotency WHERE account_id = $1 AND NOT test", merchant.record.account_id
        )
        assert charges == keys, "a charge without its key, or a key without its charge"
        for charge_id in chaos.cancelled:
            assert (await merchant.production.charge(charge_id))["status"] == "cancelled", (
                "an acknowledged cancel was lost"
            )
    assert_books_are_clean(own_system)
    events = await merchant.production.events()
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))


async def test_of_a_concurrent_payment_and_two_cancellations_of_a_boleto_at_most_one_succeeds(
    own_system: System, merchant: ApiMerchant
) -> None:
    client, winners = merchant.production, Counter[str]()
    chance = random.Random(SEED)
    async with aiohttp.ClientSession() as http, database_of(own_system) as books:

        async def pay(number: str) -> bool:
            async with http.post(f"{own_system.bank_url}/simulated/pay", json={"number": number}) as answer:
                return answer.status == 200

        async def later(work: Any) -> Any:
            await asyncio.sleep(chance.uniform(0, 0.03))
            return await work

        for _ in range(25):
            issued = await client.ask("POST", "/v1/charges/boleto", json=boleto_body(), key=str(uuid4()))
            assert issued.status == 201, issued.raw
            charge_id, number = issued.body["charge_id"], issued.body["boleto"]["nosso_numero"]
            move = {"charge_id": charge_id, "due_date": in_days(30)}
            paid, *answers = await asyncio.gather(
                later(pay(number)),
                later(client.cancel(charge_id)),
                later(client.cancel(charge_id)),
                later(client.ask("PATCH", "/v1/charges/due-date", json=move)),
            )
            cancels = [answer.status for answer in answers[:2]]
            assert set(cancels) <= {200, 409, 502}, [answer.raw for answer in answers]
            assert cancels.count(200) <= 1, "cancelled twice"
            assert not (paid and 200 in cancels), "the bank took the money of a boleto that was written off"
            winners["paid" if paid else "cancelled" if 200 in cancels else "open"] += 1
        await wait_until_books_agree(books)
        kinds = await books.fetch(
            "SELECT j.charge_id, array_agg(j.kind ORDER BY j.journal_id) FROM journal j WHERE j.account_id = $1"
            " GROUP BY 1", merchant.record.account_id,
        )  # fmt: skip
    for _, journal_kinds in kinds:
        assert journal_kinds[0] == "charge.created"
        ends = [kind for kind in journal_kinds if kind in ("payment.received", "charge.cancelled")]
        assert len(ends) <= 1, journal_kinds
    print(winners)
    assert_books_are_clean(own_system)


async def test_a_hanging_bank_delays_neither_pix_nor_lookups_nor_the_sandbox(
    own_system: System, merchant: ApiMerchant
) -> None:
    client, sandbox = merchant.production, merchant.sandbox
    async with aiohttp.ClientSession() as http:

        async def fault(name: str) -> None:
            async with http.post(f"{own_system.bank_url}/simulated/fault", json={"fault": name}) as answer:
                assert answer.status == 200

        before = await client.ask("POST", "/v1/charges/boleto", json=boleto_body(), key=str(uuid4()))
        assert before.status == 201, before.raw
        await fault("timeout_before")
        # More requests than a worker sends concurrently: all its calls to the bank hang.
        hanging = [
            asyncio.create_task(client.ask("POST", "/v1/charges/boleto", json=boleto_body(), key=str(uuid4())))
            for _ in range(120)
        ]
        try:
            await asyncio.sleep(1.0)
            served = 0
            while served < 10:
                assert (await client.create()).status == 201
                assert (await client.get(f"/v1/charges/{before.body['charge_id']}")).status == 200
                boleto = await sandbox.ask("POST", "/v1/charges/boleto", json=boleto_body(), key=str(uuid4()))
                assert boleto.status == 201, boleto.raw
                assert (await sandbox.paid())["status"] == "paid"
                if any(task.done() for task in hanging):
                    break  # a busy machine may not manage ten rounds in ten seconds
                served += 1
            assert served, "no round of other requests was answered while the bank hung"
            answers = await asyncio.gather(*hanging)
            assert {answer.status for answer in answers} == {502}
            assert all(answer.headers["Retry-After"] for answer in answers)
        finally:
            await asyncio.gather(*hanging, return_exceptions=True)
            await fault("up")
    async with database_of(own_system) as books:
        await wait_until_books_agree(books)


async def issue_with_retries(client: ApiClient) -> dict[str, Any]:
    """Issues a boleto once the bank answers again: calls that hung may still use up the worker's concurrent calls."""
    body, key = boleto_body(), str(uuid4())
    for _ in range(KEPT_TRYING):
        answer = await client.ask("POST", "/v1/charges/boleto", json=body, key=key)
        if answer.status in (200, 201):
            return dict(answer.body)
        assert answer.status == 502, answer.raw
    raise AssertionError("no boleto was issued although the bank answers again")


async def test_a_boleto_younger_than_thirty_minutes_is_not_changed_and_answers_retry_after(
    own_system: System, merchant: ApiMerchant
) -> None:
    client = merchant.production
    async with aiohttp.ClientSession() as http, database_of(own_system) as books:

        async def switch(path: str, **body: Any) -> None:
            async with http.post(f"{own_system.bank_url}/simulated/{path}", json=body) as answer:
                assert answer.status == 200

        await switch("boleto-rules", apply_30_minutes=True)
        try:
            charge = await issue_with_retries(client)
            move = {"charge_id": charge["charge_id"], "due_date": in_days(40)}
            for answer in (
                await client.cancel(charge["charge_id"]),
                await client.ask("PATCH", "/v1/charges/due-date", json=move),
            ):
                assert (answer.status, answer.code) == (502, "BANK_UNAVAILABLE")
                assert 1700 < int(answer.headers["Retry-After"]) <= 1900
            now = await client.charge(charge["charge_id"])
            assert (now["status"], now["due_date"], now["version"]) == ("pending", charge["due_date"], 1)
        finally:
            await switch("boleto-rules", apply_30_minutes=False)
        await wait_until_books_agree(books)
        assert (await client.cancel(charge["charge_id"])).status == 200
