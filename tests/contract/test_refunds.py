"""Refunds over the API (contract section 11): amounts, states, refusals, idempotency keys and lists.

No worker runs here: a refund is pending until the test stores the bank's outcome.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import msgspec
import pytest

from commands.charges.change import ChargeChange, ChargeCommand, change_charges
from commands.charges.expire import Sweeper
from commands.charges.fail import fail_charge
from commands.charges.pay import BoletoPaymentFacts, Confirmation, confirm_payments
from commands.journal import Entry
from commands.merchants.merchants import create_merchant
from commands.merchants.refund_exemption import end_refund_exemption, exempt_refunds
from commands.money.program_payouts import REFUND, ProgramPayout, note_payouts
from commands.money.refund_end import Ending, end_refunds
from commands.people.audit import Origin
from domain.charge import Charge
from domain.errors import Refused
from domain.merchants.fees import NO_FEES
from domain.refund import FailureCode
from readmodels.verify import verify
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from tests.contract.test_openapi import body_of, conforms
from tests.support.boleto_merchant import issue_boleto_in_the_past, today
from tests.support.in_process import Api, Reply, envelope, open_api
from tests.support.orders import including_ended_orders

SEAL = Seal(bytes.fromhex("5e" * 32))
DESTINATION = {"pix_key": "maria@example.com", "document": "52998224725"}
FIELDS = [
    "refund_id", "charge_id", "payment_id", "amount", "status", "reason", "description", "external_id",
    "end_to_end_id", "return_id", "failure_code", "refunded_total", "refundable_remaining", "created_at",
    "completed_at", "test", "held",
]  # fmt: skip


class Environment:
    """The first merchant of an API, with his test credential."""

    def __init__(self, api: Api, pool: Pool, database_url: str) -> None:
        self.api = api
        self.pool = pool
        self.database_url = database_url

    async def paid(self, amount: str = "10.00", **more: Any) -> dict[str, Any]:
        charge = await self.api.create(amount=amount, **more)
        reply = await self.api.post(
            f"/v1/charges/{charge['charge_id']}/simulate-payment", None, token=await self.api.token()
        )
        assert reply.status == 200, reply
        found: dict[str, Any] = reply.json()
        return found

    async def record_payment(
        self,
        charge_id: str,
        cents: int,
        *,
        days_ago: float = 0,
        pix: bool = True,
        boleto: BoletoPaymentFacts | None = None,
    ) -> None:
        """Record a payment that the bank confirms for a charge."""
        now = datetime.now(UTC)
        paid_at = now - timedelta(days=days_ago)
        end_to_end_id = f"E99999994{paid_at:%Y%m%d%H%M}{secrets.token_hex(6)[:11]}" if pix else None
        confirmation = Confirmation(
            charge_id=UUID(charge_id), end_to_end_id=end_to_end_id, amount_cents=cents, paid_at=paid_at,
            payer_name="Maria", payer_document="52998224725", boleto=boleto,
        )  # fmt: skip
        async with transaction(self.pool) as conn:
            (outcome,) = await confirm_payments(conn, [confirmation], now=now, seal=SEAL, fees=NO_FEES)
        assert isinstance(outcome, Charge)

    async def boleto(
        self,
        cents: int = 15_000,
        *,
        rail: str = "boleto",
        pix: bool = False,
        days_ago: float = 0,
        test: bool = True,
    ) -> str:
        """A boleto, paid on its line or by PIX (`rail`); `pix`: the payment's endToEndId is known. Returns its id."""
        system = cast(
            Any,
            SimpleNamespace(
                secret_key=bytes.fromhex("5e" * 32), database_url=self.database_url, bank_url="http://bank.example.com"
            ),
        )
        client = cast(Any, SimpleNamespace(account_id=str(self.api.first.account_id)))
        async with self.pool.acquire() as books:
            charge_id = await issue_boleto_in_the_past(
                system, cast(Any, books), client, test=test, due_on=today() + timedelta(days=5), amount_cents=cents
            )
        of = BoletoPaymentFacts(source=secrets.token_hex(10), method=rail, nosso_numero="0" * 20, txid=None)
        await self.record_payment(charge_id, cents, pix=pix, boleto=of, days_ago=days_ago)
        return charge_id

    async def ask(
        self, charge_id: str, body: Any = None, *, key: str | None = None, token: str | None = None, **more: Any
    ) -> Reply:
        return await self.api.post(
            f"/v1/charges/{charge_id}/refunds",
            {} if body is None else body,
            token=token or await self.api.token(),
            key=key or secrets.token_hex(8),
            **more,
        )

    async def refund(self, charge_id: str, amount: str | None = None, **more: Any) -> dict[str, Any]:
        """Create a refund. Asserts that it is accepted."""
        reply = await self.ask(charge_id, {**({} if amount is None else {"amount": amount}), **more})
        assert reply.status == 201, reply
        found: dict[str, Any] = reply.json()
        return found

    async def end_at_bank(self, *refunds: dict[str, Any], failure: FailureCode | None = None) -> None:
        """Record that the bank carried these refunds out, or that they failed."""
        endings = [
            Ending(
                charge_id=UUID(each["charge_id"]),
                refund_id=UUID(each["refund_id"]),
                return_id=None if failure else f"D99999994202611211200{secrets.token_hex(6)[:11]}",
                failure=failure,
            )
            for each in refunds
        ]
        async with transaction(self.pool) as conn:
            outcomes = await end_refunds(conn, endings, now=self.now())
        assert all(isinstance(outcome, Charge) for outcome in outcomes)

    async def spend(self, cents: int) -> None:
        """Debit the wallet by something other than a refund."""
        charge_id = UUID((await self.api.create())["charge_id"])

        def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
            return [
                ChargeChange(charge=charge, kind="wallet.adjusted", entry=Entry(type="adjustment", amount_cents=-cents))
            ]

        async with transaction(self.pool) as conn:
            command = ChargeCommand(charge_id=charge_id, owner=None, decide=decide, actor="test")
            await change_charges(conn, [command], now=self.now())

    def now(self) -> datetime:
        at = datetime.now(UTC)
        return at.replace(microsecond=at.microsecond // 1000 * 1000)

    async def get(self, path: str, status: int = 200) -> Any:
        reply = await self.api.get(path, token=await self.api.token())
        assert reply.status == status, reply
        return reply.json()

    async def charge(self, charge_id: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.get(f"/v1/charges/{charge_id}")
        return found

    async def payments(self, charge_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get(f"/v1/payments?charge_id={charge_id}&order=asc"))["data"]
        return found

    async def ledger(self, charge_id: str) -> list[dict[str, Any]]:
        """The ledger entries of one charge, oldest first."""
        account = self.api.first.account_id
        page = await self.get(f"/v1/accounts/{account}/ledger?limit=100")
        return [line for line in reversed(page["data"]) if line["charge_id"] == charge_id]

    async def events(self, charge_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get(f"/v1/events?charge_id={charge_id}&order=asc&limit=100"))["data"]
        return found

    async def balance_cents(self) -> int:
        found = await self.get(f"/v1/accounts/{self.api.first.account_id}/balance")
        return round(float(found["balance"]) * 100)


@pytest.fixture(scope="module")
async def api(servers: Any) -> AsyncIterator[Api]:
    before = await verify(servers.database_url)  # findings left by other tests do not count
    async with open_api(servers.database_url, servers.redis_url) as opened:
        yield opened
    assert await verify(servers.database_url) == before


@pytest.fixture
async def env(api: Api, servers: Any, pool: Pool) -> Environment:
    """A new merchant for each test."""
    async with pool.acquire() as conn:
        mine = await create_merchant(conn, name="Loja", address=True, kyc="approved", now=datetime.now(UTC))
    return Environment(Api(api.app, api.settings, [mine, api.second, api.third]), pool, servers.database_url)


# Answers


async def test_a_refund_is_pending_at_once_and_has_every_field(env: Environment) -> None:
    charge = await env.paid(external_id="pedido-1")
    reply = await env.ask(
        charge["charge_id"],
        {
            "amount": "4.50",
            "reason": "cliente desistiu",
            "description": "Devolução do pedido 1",
            "external_id": "dev-1",
        },
    )
    made = reply.json()
    assert reply.status == 201
    assert list(made) == FIELDS
    assert made == {
        "refund_id": made["refund_id"], "charge_id": charge["charge_id"],
        "payment_id": charge["payment"]["payment_id"], "amount": "4.50", "status": "pending",
        "reason": "cliente desistiu", "description": "Devolução do pedido 1", "external_id": "dev-1",
        "end_to_end_id": charge["payment"]["end_to_end_id"], "return_id": None, "failure_code": None,
        "refunded_total": "4.50", "refundable_remaining": "5.50", "created_at": made["created_at"],
        "completed_at": None, "test": True, "held": False,
    }  # fmt: skip
    assert await env.get(f"/v1/refunds/{made['refund_id']}") == made


async def test_a_refund_without_an_amount_returns_all_that_remains(env: Environment) -> None:
    charge = await env.paid("10.00")
    await env.refund(charge["charge_id"], "3.33")
    rest = await env.refund(charge["charge_id"])
    assert (rest["amount"], rest["refunded_total"], rest["refundable_remaining"]) == ("6.67", "10.00", "0.00")


async def test_a_refund_without_a_body_is_the_same_request_as_an_empty_object(env: Environment) -> None:
    charge = await env.paid("10.00")
    path, token = f"/v1/charges/{charge['charge_id']}/refunds", await env.api.token()
    made = await env.api.post(path, None, token=token, key="whole")
    assert (made.status, made.json()["amount"]) == (201, "10.00")
    # No body and an empty object are the same request; any field makes it another.
    for body, status in ((None, 200), ({}, 200), ({"amount": "10.00"}, 409)):
        again = await env.api.post(path, body, token=token, key="whole")
        assert again.status == status
        assert status == 409 or again.json()["refund_id"] == made.json()["refund_id"]
    other = await env.paid("10.00")
    elsewhere = await env.api.post(f"/v1/charges/{other['charge_id']}/refunds", None, token=token, key="whole")
    assert elsewhere.code() == "IDEMPOTENCY_KEY_REUSED"


async def test_a_refund_that_succeeds_shows_on_charge_payment_ledger_and_feed(env: Environment) -> None:
    charge = await env.paid("10.00", external_id="pedido-2")
    charge_id = charge["charge_id"]
    refund = await env.refund(charge_id, "4.00", external_id="dev-2", reason="troca")
    pending = await env.charge(charge_id)
    assert pending == charge  # nothing has been returned yet
    await env.end_at_bank(refund)
    after, (payment,) = await env.charge(charge_id), await env.payments(charge_id)
    assert (after["status"], after["refunded_amount"], after["version"]) == ("paid", "4.00", charge["version"] + 1)
    assert after["payment"] == {**charge["payment"], "refunded_amount": "4.00"}
    assert payment["refunded_amount"] == "4.00"
    found = await env.get(f"/v1/refunds/{refund['refund_id']}")
    assert (found["status"], found["failure_code"]) == ("succeeded", None)
    assert found["return_id"].startswith("D")
    assert found["completed_at"] >= found["created_at"]
    credit, debit = await env.ledger(charge_id)
    assert (credit["type"], credit["refund_id"]) == ("payment", None)
    assert debit == debit | {
        "type": "refund", "direction": "debit", "amount": "4.00", "refund_id": refund["refund_id"],
        "payment_id": refund["payment_id"], "charge_id": charge_id, "external_id": "pedido-2",
    }  # fmt: skip
    received, succeeded = await env.events(charge_id)
    assert received["type"] == "payment.received"
    assert succeeded == {
        "event": "refund.succeeded", "event_id": succeeded["event_id"], "charge_id": charge_id,
        "account_id": charge["account_id"], "status": "paid", "amount": "4.00", "external_id": "pedido-2",
        "test": True, "refund_id": refund["refund_id"], "payment_id": refund["payment_id"],
        "refund_status": "succeeded", "reason": "troca", "refund_external_id": "dev-2",
        "end_to_end_id": refund["end_to_end_id"], "return_id": found["return_id"], "failure_code": None,
        "refunded_total": "4.00", "refundable_remaining": "6.00", "completed_at": found["completed_at"],
        "version": after["version"], "type": "refund.succeeded", "sequence": received["sequence"] + 1,
        "created_at": succeeded["created_at"],
    }  # fmt: skip


async def test_a_charge_becomes_refunded_only_when_its_whole_amount_is_returned(env: Environment) -> None:
    charge_id = (await env.paid("10.00"))["charge_id"]
    first, second = await env.refund(charge_id, "9.99"), await env.refund(charge_id)
    assert (await env.charge(charge_id))["status"] == "paid"  # all is requested, nothing returned
    await env.end_at_bank(second)
    assert (await env.charge(charge_id))["status"] == "paid"
    await env.end_at_bank(first)
    charge = await env.charge(charge_id)
    assert (charge["status"], charge["refunded_amount"]) == ("refunded", "10.00")
    assert charge["payment"]["refunded_amount"] == "10.00"
    kinds = [event["type"] for event in await env.events(charge_id)]
    assert kinds == ["payment.received", "refund.succeeded", "refund.succeeded", "charge.refunded"]
    refunded_event = (await env.events(charge_id))[-1]
    assert (refunded_event["status"], refunded_event["refunded_amount"], refunded_event["amount"]) == (
        "refunded",
        "10.00",
        "10.00",
    )
    assert refunded_event["version"] == charge["version"]
    reply = await env.ask(charge_id)
    assert reply.code() == "REFUND_EXCEEDS"


async def test_two_refunds_that_succeed_in_one_transaction_make_the_charge_refunded_once(env: Environment) -> None:
    charge_id = (await env.paid("10.00"))["charge_id"]
    halves = [await env.refund(charge_id, "5.00") for _ in range(2)]
    await env.end_at_bank(*halves)
    assert (await env.charge(charge_id))["status"] == "refunded"
    kinds = [event["type"] for event in await env.events(charge_id)]
    assert kinds.count("charge.refunded") == 1
    await env.end_at_bank(*halves)  # the same outcome reported again
    assert [event["type"] for event in await env.events(charge_id)] == kinds


async def test_a_failed_refund_is_credited_back_and_can_be_requested_again(env: Environment) -> None:
    charge = await env.paid("10.00")
    charge_id, before = charge["charge_id"], await env.balance_cents()
    refund = await env.refund(charge_id)
    assert await env.balance_cents() == before - 1000
    await env.end_at_bank(refund, failure=FailureCode.NOT_CARRIED_OUT)
    assert await env.balance_cents() == before
    assert await env.charge(charge_id) == charge
    found = await env.get(f"/v1/refunds/{refund['refund_id']}")
    assert (found["status"], found["failure_code"]) == ("failed", "NOT_CARRIED_OUT")
    assert (found["refunded_total"], found["refundable_remaining"]) == ("0.00", "10.00")
    lines = [(line["type"], line["direction"], line["refund_id"]) for line in await env.ledger(charge_id)][1:]
    assert lines == [("refund", "debit", refund["refund_id"]), ("refund_reversal", "credit", refund["refund_id"])]
    failed = (await env.events(charge_id))[-1]
    assert (failed["type"], failed["failure_code"]) == ("refund.failed", "NOT_CARRIED_OUT")
    assert (await env.refund(charge_id))["amount"] == "10.00"


async def test_two_refunds_that_fail_in_one_transaction_free_the_whole_amount_again(env: Environment) -> None:
    charge_id = (await env.paid("10.00"))["charge_id"]
    halves = [await env.refund(charge_id, "5.00") for _ in range(2)]
    await env.end_at_bank(*halves, failure=FailureCode.NOT_CARRIED_OUT)
    assert (await env.refund(charge_id))["amount"] == "10.00"


# Amounts


async def test_pending_refunds_count_against_what_remains(env: Environment) -> None:
    charge_id = (await env.paid("10.00"))["charge_id"]
    await env.refund(charge_id, "6.00")
    for amount in ("4.01", "10.00", "9999999999.99"):
        assert (await env.ask(charge_id, {"amount": amount})).code() == "REFUND_EXCEEDS"
    await env.refund(charge_id, "4.00")
    for body in ({"amount": "0.01"}, {}):
        assert (await env.ask(charge_id, body)).code() == "REFUND_EXCEEDS"


async def test_fifty_concurrent_refunds_of_one_real_return_no_more_than_the_ten_reais_paid(env: Environment) -> None:
    charge_id = (await env.paid("10.00"))["charge_id"]
    await env.paid("100.00")  # the balance would cover more
    replies = await asyncio.gather(*(env.ask(charge_id, {"amount": "1.00"}) for _ in range(50)))
    assert sorted(reply.status for reply in replies) == [201] * 10 + [422] * 40
    assert {reply.code() for reply in replies if reply.status == 422} == {"REFUND_EXCEEDS"}
    assert len({reply.json()["refund_id"] for reply in replies if reply.status == 201}) == 10
    left = sorted(reply.json()["refundable_remaining"] for reply in replies if reply.status == 201)
    assert left == [f"{n}.00" for n in range(10)]
    assert await env.balance_cents() == 10_000


async def test_concurrent_refunds_never_take_the_balance_below_zero(env: Environment) -> None:
    """Part of the money was spent; each of the concurrent refunds is decided on the balance the one before left."""
    charges = [await env.paid("10.00") for _ in range(6)]
    await env.spend(3_500)
    replies = await asyncio.gather(*(env.ask(charge["charge_id"]) for charge in charges))
    assert sorted(reply.status for reply in replies) == [201, 201, 422, 422, 422, 422]
    assert {reply.code() for reply in replies if reply.status == 422} == {"INSUFFICIENT_BALANCE"}
    assert await env.balance_cents() == 500
    refused = charges[[reply.status for reply in replies].index(422)]["charge_id"]
    assert (await env.refund(refused, "5.00"))["refundable_remaining"] == "5.00"
    assert (await env.ask(refused, {"amount": "0.01"})).code() == "INSUFFICIENT_BALANCE"
    assert await env.balance_cents() == 0


async def test_a_refund_refused_for_the_balance_leaves_no_refund_no_entry_and_no_key(env: Environment) -> None:
    charge, key = await env.paid("10.00"), secrets.token_hex(8)
    await env.spend(1)
    assert (await env.ask(charge["charge_id"], key=key)).code() == "INSUFFICIENT_BALANCE"
    assert (await env.get(f"/v1/refunds?charge_id={charge['charge_id']}"))["data"] == []
    assert (await env.get(f"/v1/idempotency-keys/{key}"))["state"] == "unknown"
    assert [line["type"] for line in await env.ledger(charge["charge_id"])] == ["payment"]
    await env.paid("1.00")
    assert (await env.ask(charge["charge_id"], key=key)).status == 201


# Which payments can be refunded, and how


@pytest.mark.parametrize("state", ["pending", "cancelled", "expired", "failed"])
async def test_a_charge_that_is_not_paid_is_not_refundable(env: Environment, state: str) -> None:
    charge_id = (await env.api.create())["charge_id"]
    if state == "cancelled":
        await env.api.post(f"/v1/charges/{charge_id}/cancel", None, token=await env.api.token())
    elif state == "failed":
        async with transaction(env.pool) as conn:
            await fail_charge(
                conn, charge_id=UUID(charge_id), code="BANK_REFUSED",
                message="No.", now=env.now(), actor="test",
            )  # fmt: skip
    elif state == "expired":
        past = "UPDATE charge SET expires_at = '2026-01-01Z' WHERE charge_id = $1"
        await env.pool.execute(past, UUID(charge_id))
        await Sweeper(env.pool).sweep(now=env.now())
    assert (await env.charge(charge_id))["status"] == state
    for body in (None, {"amount": "0.01"}):
        refused = envelope(await env.ask(charge_id, body))
        assert (refused["code"], refused.get("fields")) == ("CHARGE_NOT_REFUNDABLE", None)
        assert refused["message"] == f"The charge cannot be refunded: it is {state}."
    assert (await env.get(f"/v1/charges/{charge_id}/refunds")) == {"data": [], "next_cursor": None}


async def test_a_pix_payment_is_refundable_for_ninety_days(env: Environment) -> None:
    for days, status in ((89.9, 201), (90.1, 409)):
        charge_id = (await env.api.create())["charge_id"]
        await env.record_payment(charge_id, 1000, days_ago=days)
        reply = await env.ask(charge_id)
        assert reply.status == status
        assert reply.status == 201 or reply.code() == "CHARGE_NOT_REFUNDABLE"


async def test_a_boleto_payment_is_refundable_for_a_hundred_and_eighty_days(env: Environment) -> None:
    for days, status in ((179.9, 201), (180.1, 409)):
        charge_id = await env.boleto(days_ago=days)
        assert (await env.ask(charge_id, {"destination": DESTINATION})).status == status


async def test_a_boleto_paid_on_its_line_needs_a_destination(env: Environment) -> None:
    charge_id = await env.boleto()
    assert (await env.ask(charge_id)).code() == "REFUND_DESTINATION_REQUIRED"
    refund = await env.refund(charge_id, "50.00", destination=DESTINATION)
    assert (refund["amount"], refund["end_to_end_id"]) == ("50.00", None)
    order = await env.pool.fetchrow(
        including_ended_orders("SELECT kind, request FROM bank_order WHERE charge_id = $1 AND kind LIKE 'refund%'"),
        UUID(charge_id),
    )
    assert order is not None
    assert order["kind"] == "refund_transfer"
    # A row cast to text shows its bytea columns in hexadecimal digits.
    named = [form for each in DESTINATION.values() for form in (each, each.encode().hex())]
    for table in ("bank_order", "bank_order_done", "journal", "read_refund", "refund"):
        rows = await env.pool.fetch(f"SELECT t::text FROM {table} t WHERE charge_id = $1", UUID(charge_id))  # noqa: S608
        assert not any(form in row[0] for form in named for row in rows), f"{table} holds the destination unencrypted"


async def test_only_refunds_by_an_api_credential_to_a_pix_key_are_noted_for_mail_to_owners(
    env: Environment, servers: Any
) -> None:
    account_id, client_id = env.api.first.account_id, env.api.first.production.client_id
    noted = "SELECT kind, payouts, amount_cents, client_ids FROM program_payout WHERE account_id = $1"
    await env.refund(await env.boleto(), "5.00", destination=DESTINATION)
    assert await env.pool.fetch(noted, account_id) == [], "a sandbox refund moves no real money"
    token = await env.api.token(mode="production")
    charge_id = await env.boleto(test=False)
    for cents in (100, 250):
        body = {"amount": f"{cents // 100}.{cents % 100:02}", "destination": DESTINATION}
        assert (await env.ask(charge_id, body, token=token)).status == 201
    back = await env.boleto(test=False, rail="pix", pix=True)
    for more in ({}, {"destination": DESTINATION}):  # both return to the paying account
        assert (await env.ask(back, {"amount": "9.00", **more}, token=token)).status == 201
    refused = await env.ask(charge_id, {"amount": "900.00", "destination": DESTINATION}, token=token)
    assert refused.code() == "REFUND_EXCEEDS"
    assert [tuple(row) for row in await env.pool.fetch(noted, account_id)] == [("refund", 2, 350, [client_id])]
    # Concurrent refunds are noted in one batch.
    payouts = [ProgramPayout(account_id, cents, f"other-{cents}") for cents in (40, 60)]
    async with transaction(env.pool) as conn:
        await note_payouts(conn, REFUND, payouts, now=datetime.now(UTC))
    assert [tuple(row) for row in await env.pool.fetch(noted, account_id)] == [
        ("refund", 4, 450, sorted([client_id, "other-40", "other-60"]))
    ]


async def test_a_boleto_paid_by_pix_is_returned_to_the_paying_account(env: Environment) -> None:
    charge_id = await env.boleto(rail="pix", pix=True)
    (payment,) = await env.payments(charge_id)
    refund = await env.refund(charge_id)
    assert refund["end_to_end_id"] == payment["end_to_end_id"]
    kind = await env.pool.fetchval(
        including_ended_orders("SELECT kind FROM bank_order WHERE charge_id = $1 AND kind LIKE 'refund%'"),
        UUID(charge_id),
    )
    assert kind == "refund_return"


async def test_a_boleto_paid_by_pix_without_a_usable_end_to_end_id_needs_a_destination(env: Environment) -> None:
    charge_id = await env.boleto(rail="pix", pix=False)
    assert (await env.ask(charge_id)).code() == "REFUND_DESTINATION_REQUIRED"
    old = await env.boleto(rail="pix", pix=True, days_ago=100)  # the API Pix returns payments for 90 days only
    assert (await env.ask(old)).code() == "REFUND_DESTINATION_REQUIRED"
    asked = await env.ask(old, {"destination": DESTINATION})
    # The refund is a PIX of its own; that of the payment would hide it from the owners' mails about payouts.
    assert (asked.status, asked.json()["end_to_end_id"]) == (201, None)


async def test_a_refund_to_a_document_other_than_the_payers_is_refused(env: Environment) -> None:
    charge_id, before = await env.boleto(), await env.balance_cents()
    for document in ("11144477735", "11222333000181"):
        # Any key is accepted: the bank transfers only to a key whose owner has the document.
        refused = await env.ask(charge_id, {"destination": DESTINATION | {"document": document}}, key="once")
        assert (refused.status, refused.code()) == (400, "VALIDATION_ERROR")
        assert [field["field"] for field in refused.json()["error"]["fields"]] == ["destination.document"]
    assert await env.balance_cents() == before
    assert (await env.get(f"/v1/charges/{charge_id}/refunds"))["data"] == []
    # Nothing was created, so the key works for the corrected request.
    assert (await env.ask(charge_id, {"destination": DESTINATION}, key="once")).status == 201


async def test_a_refund_to_the_paying_account_does_not_compare_the_destinations_document(env: Environment) -> None:
    charge_id = await env.boleto(rail="pix", pix=True)
    assert (await env.ask(charge_id, {"destination": DESTINATION | {"document": "11144477735"}})).status == 201


async def test_a_refund_by_transfer_is_refused_without_a_registered_payer_document(env: Environment) -> None:
    charge_id = await env.boleto()
    await env.pool.execute("UPDATE read_charge SET payer_document_hash = NULL WHERE charge_id = $1", UUID(charge_id))
    refused = await env.ask(charge_id, {"destination": DESTINATION})
    assert (refused.status, refused.code()) == (400, "VALIDATION_ERROR")
    assert "no payer's document" in refused.json()["error"]["fields"][0]["message"]
    # Restore the read table: the fixture `api` compares it with the journal.
    await env.pool.execute(
        "UPDATE read_charge SET payer_document_hash = $2 WHERE charge_id = $1",
        UUID(charge_id),
        SEAL.blind("52998224725"),
    )


async def test_staff_exempt_an_account_from_the_document_rule_with_an_audited_reason(env: Environment) -> None:
    charge_id, account_id = await env.boleto(), env.api.first.account_id
    other = {"amount": "1.00", "destination": DESTINATION | {"document": "11144477735"}}
    origin = Origin("ana@plataforma.example.com", "terminal", "cli")
    async with transaction(env.pool) as conn:
        for wrong in ("", " ", "x" * 501):
            with pytest.raises(Refused, match="VALIDATION_ERROR"):
                await exempt_refunds(conn, account_id, wrong, origin, now=env.now())
    assert (await env.ask(charge_id, other)).status == 400
    async with transaction(env.pool) as conn:
        await exempt_refunds(conn, account_id, "paga por clientes", origin, now=env.now())
    assert (await env.ask(charge_id, other)).status == 201
    async with transaction(env.pool) as conn:
        await end_refund_exemption(conn, account_id, origin, now=env.now())
    assert (await env.ask(charge_id, other)).status == 400
    log = await env.pool.fetch(
        "SELECT email, action, facts::text FROM audit WHERE account_id = $1 ORDER BY at", account_id
    )
    assert [tuple(row) for row in log] == [
        ("Plataforma", "merchant.refunds_freed", '{"reason": "paga por clientes"}'),
        ("Plataforma", "merchant.refunds_bound", "{}"),
    ]


async def test_a_refund_of_a_pix_charge_refuses_a_destination(env: Environment) -> None:
    charge_id = (await env.paid())["charge_id"]
    reply = await env.ask(charge_id, {"destination": DESTINATION})
    assert reply.code() == "VALIDATION_ERROR"
    assert [field["field"] for field in reply.json()["error"]["fields"]] == ["destination"]


# Anomalous payments


async def test_a_duplicate_is_refunded_by_its_payment_id_and_the_charge_stays_paid(env: Environment) -> None:
    charge_id = (await env.paid("10.00"))["charge_id"]
    await env.record_payment(charge_id, 1000)
    settling, duplicate = await env.payments(charge_id)
    assert duplicate["anomaly"] == "duplicate"
    refund = await env.refund(charge_id, payment_id=duplicate["payment_id"])
    await env.end_at_bank(refund)
    charge = await env.charge(charge_id)
    assert (charge["status"], charge["refunded_amount"]) == ("paid", "10.00")
    assert charge["payment"]["refunded_amount"] == "0.00"
    assert [each["refunded_amount"] for each in await env.payments(charge_id)] == ["0.00", "10.00"]
    # With the first payment returned too, all money is returned.
    await env.end_at_bank(await env.refund(charge_id))
    assert (await env.charge(charge_id))["status"] == "refunded"
    assert settling["payment_id"] == (await env.charge(charge_id))["payment"]["payment_id"]
    # A further payment is a duplicate too: the charge was paid.
    await env.record_payment(charge_id, 1000)
    assert (await env.payments(charge_id))[-1]["anomaly"] == "duplicate"


async def test_a_charge_stays_paid_until_its_duplicate_is_returned_too(env: Environment) -> None:
    charge_id = (await env.paid("10.00"))["charge_id"]
    await env.record_payment(charge_id, 1000)
    await env.end_at_bank(await env.refund(charge_id))
    assert (await env.charge(charge_id))["status"] == "paid"


async def test_a_payment_after_cancellation_is_refundable_and_the_charge_stays_cancelled(
    env: Environment,
) -> None:
    charge_id = (await env.api.create())["charge_id"]
    await env.api.post(f"/v1/charges/{charge_id}/cancel", None, token=await env.api.token())
    await env.record_payment(charge_id, 1000)
    (payment,) = await env.payments(charge_id)
    assert payment["anomaly"] == "paid_after_cancel"
    assert (await env.ask(charge_id)).code() == "CHARGE_NOT_REFUNDABLE"  # it is not paid
    await env.end_at_bank(await env.refund(charge_id, payment_id=payment["payment_id"]))
    charge = await env.charge(charge_id)
    assert (charge["status"], charge["refunded_amount"], charge["payment"]) == ("cancelled", "10.00", None)


async def test_payments_of_too_little_and_too_much_are_refundable(env: Environment) -> None:
    charge_id = (await env.api.create(amount="10.00"))["charge_id"]
    await env.record_payment(charge_id, 400)
    (little,) = await env.payments(charge_id)
    assert (await env.charge(charge_id))["status"] == "pending"
    await env.end_at_bank(await env.refund(charge_id, payment_id=little["payment_id"]))
    assert (await env.charge(charge_id))["status"] == "pending"
    await env.record_payment(charge_id, 1500)
    assert (await env.charge(charge_id))["status"] == "paid"
    await env.end_at_bank(await env.refund(charge_id, "5.00"))
    assert (await env.charge(charge_id))["status"] == "paid"
    await env.end_at_bank(await env.refund(charge_id))
    charge = await env.charge(charge_id)
    assert (charge["status"], charge["refunded_amount"]) == ("refunded", "19.00")


async def test_a_refund_by_the_payment_id_of_another_charge_is_refused(env: Environment) -> None:
    charge, other = await env.paid(), await env.paid()
    for payment_id in (other["payment"]["payment_id"], str(uuid4())):
        reply = await env.ask(charge["charge_id"], {"payment_id": payment_id})
        assert reply.code() == "CHARGE_NOT_REFUNDABLE"
        assert [field["field"] for field in reply.json()["error"]["fields"]] == ["payment_id"]


# Scopes, and the order of refusals


async def test_the_scope_is_checked_before_the_key_and_the_key_before_the_body(env: Environment) -> None:
    path, headers = f"/v1/charges/{uuid4()}/refunds", [(b"content-type", b"application/json")]
    narrow = await env.api.token(scope="charges:create payments:read")
    assert (await env.ask(str(uuid4()), b"{", token=narrow)).code() == "INSUFFICIENT_SCOPE"
    assert (await env.api.post(path, b"{", token=await env.api.token())).code() == "IDEMPOTENCY_KEY_REQUIRED"
    assert (await env.ask(str(uuid4()), b"{")).code() == "MALFORMED_JSON"
    assert (await env.api.ask("POST", path, headers=headers, body=b"{}")).code() == "UNAUTHENTICATED"
    only = await env.api.token(scope="refunds:create")
    assert (await env.ask((await env.paid())["charge_id"], token=only)).status == 201
    for lists in ("/v1/refunds", f"/v1/refunds/{uuid4()}", path):
        assert (await env.api.get(lists, token=only)).code() == "INSUFFICIENT_SCOPE"


async def test_a_charge_or_refund_of_another_account_or_mode_is_answered_like_an_unknown_id(env: Environment) -> None:
    charge_id = (await env.paid())["charge_id"]
    refund = await env.refund(charge_id, "1.00")
    strangers = [await env.api.token(env.api.second), await env.api.token(mode="production")]
    for token in strangers:
        assert (await env.ask(charge_id, token=token)).code() == "CHARGE_NOT_FOUND"
        assert (await env.api.get(f"/v1/charges/{charge_id}/refunds", token=token)).code() == "CHARGE_NOT_FOUND"
        assert (await env.api.get(f"/v1/refunds/{refund['refund_id']}", token=token)).code() == "REFUND_NOT_FOUND"
        listed = await env.api.get(f"/v1/refunds?charge_id={charge_id}", token=token)
        assert listed.json()["data"] == []
    for unknown in (str(uuid4()), "x", refund["refund_id"].upper()):
        assert (await env.api.get(f"/v1/refunds/{unknown}", token=await env.api.token())).code() == "REFUND_NOT_FOUND"
        assert (await env.ask(unknown)).code() == "CHARGE_NOT_FOUND"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"amount": None}, "AMOUNT_INVALID"), ({"amount": 1}, "AMOUNT_INVALID"), ({"amount": "0"}, "AMOUNT_INVALID"),
        ({"amount": ""}, "AMOUNT_INVALID"), ({"amount": "-1.00"}, "AMOUNT_INVALID"),
        ({"amount": "1.000"}, "AMOUNT_INVALID"), ({"amount": "1", "reason": 1}, "VALIDATION_ERROR"),
        ({"reason": "x" * 141}, "VALIDATION_ERROR"), ({"description": "x" * 501}, "VALIDATION_ERROR"),
        ({"external_id": "x" * 256}, "VALIDATION_ERROR"), ({"external_id": "\x00"}, "VALIDATION_ERROR"),
        ({"payment_id": "x"}, "VALIDATION_ERROR"), ({"payment_id": 1}, "VALIDATION_ERROR"),
        ({"destination": "maria@example.com"}, "VALIDATION_ERROR"), ({"destination": {}}, "VALIDATION_ERROR"),
        ({"destination": DESTINATION | {"document": "1"}}, "VALIDATION_ERROR"),
        ({"destination": DESTINATION | {"pix_key": "maria"}}, "VALIDATION_ERROR"),
        ({"destination": DESTINATION | {"pix_key": "Maria@example.com"}}, "VALIDATION_ERROR"),
        ({"destination": DESTINATION | {"pix_key": "11987654321\n"}}, "VALIDATION_ERROR"),
        ({"destination": DESTINATION | {"pix_key": "m@" + "a" * 70 + ".example"}}, "VALIDATION_ERROR"),
    ],
    ids=repr,
)  # fmt: skip
async def test_every_fault_of_the_body_is_refused_before_the_charge_is_looked_up(
    env: Environment, body: dict[str, Any], code: str
) -> None:
    assert (await env.ask(str(uuid4()), body)).code() == code


@pytest.mark.parametrize(
    "key", ["52998224725", "11222333000181", "+5511987654321", "a.b+c@ex-ample.com.br", str(UUID(int=1))]
)
async def test_every_kind_of_pix_key_is_accepted_as_destination(env: Environment, key: str) -> None:
    charge_id = await env.boleto()
    assert (await env.ask(charge_id, {"destination": DESTINATION | {"pix_key": key}})).status == 201


async def test_the_allow_header_of_the_refunds_path_names_both_methods(env: Environment) -> None:
    path = f"/v1/charges/{uuid4()}/refunds"
    for method in ("OPTIONS", "PATCH"):
        reply = await env.api.ask(method, path)
        assert {"GET", "POST", "OPTIONS"} <= set(str(reply.header("allow")).split(", "))


# Keys


async def test_a_replay_answers_the_refund_as_it_is_now(env: Environment) -> None:
    charge_id, key, body = (await env.paid())["charge_id"], secrets.token_hex(8), {"amount": "10.00"}
    first = await env.ask(charge_id, body, key=key)
    assert first.status == 201
    await env.end_at_bank(first.json())  # the charge is refunded: nothing is left to refund
    again = await env.ask(charge_id, body, key=key)
    assert (again.status, again.header("idempotent-replayed"), again.header("idempotency-key")) == (200, "true", key)
    assert again.json() == await env.get(f"/v1/refunds/{first.json()['refund_id']}")
    assert again.json()["status"] == "succeeded"
    state = await env.get(f"/v1/idempotency-keys/{key}")
    assert (state["state"], state["resource_type"]) == ("completed", "refund")
    assert state["resource_id"] == first.json()["refund_id"]


async def test_a_key_used_with_another_body_charge_or_route_is_refused(env: Environment) -> None:
    charge, other, key = await env.paid(), await env.paid(), secrets.token_hex(8)
    assert (await env.ask(charge["charge_id"], {"amount": "1.00"}, key=key)).status == 201
    for charge_id, body in (
        (charge["charge_id"], {"amount": "1.01"}),
        (charge["charge_id"], {}),
        (other["charge_id"], {"amount": "1.00"}),
        (str(uuid4()), {"amount": "1.00"}),
        ("x", {"amount": "1.00"}),
    ):
        assert (await env.ask(charge_id, body, key=key)).code() == "IDEMPOTENCY_KEY_REUSED"
    creation = secrets.token_hex(8)
    await env.api.post("/v1/charges/pix", env.api.pix(), token=await env.api.token(), key=creation)
    assert (await env.ask(charge["charge_id"], key=creation)).code() == "IDEMPOTENCY_KEY_REUSED"


async def test_fifty_equal_requests_at_once_make_one_refund(env: Environment) -> None:
    charge_id, key = (await env.paid())["charge_id"], secrets.token_hex(8)
    replies = await asyncio.gather(*(env.ask(charge_id, {"amount": "1.00"}, key=key) for _ in range(50)))
    assert sorted(reply.status for reply in replies) == [200] * 49 + [201]
    assert len({reply.json()["refund_id"] for reply in replies}) == 1
    assert len((await env.get(f"/v1/charges/{charge_id}/refunds"))["data"]) == 1


async def test_a_refused_refund_does_not_use_up_its_key(env: Environment) -> None:
    charge_id, key = (await env.api.create())["charge_id"], secrets.token_hex(8)
    assert (await env.ask(charge_id, key=key)).code() == "CHARGE_NOT_REFUNDABLE"
    await env.record_payment(charge_id, 1000)
    assert (await env.ask(charge_id, key=key)).status == 201


async def test_a_refused_refund_does_not_affect_refunds_stored_in_the_same_transaction(env: Environment) -> None:
    """Refunds of one batch share a transaction; each has its own outcome."""
    charges = [await env.paid() for _ in range(10)]
    unpaid = [await env.api.create() for _ in range(10)]
    both = [each["charge_id"] for pair in zip(charges, unpaid, strict=True) for each in pair]
    replies = await asyncio.gather(*(env.ask(charge_id) for charge_id in both))
    assert [reply.status for reply in replies] == [201, 409] * 10


# Lists


async def test_refunds_are_listed_by_every_filter_and_paged_by_cursor(env: Environment) -> None:
    first, second = await env.paid("10.00"), await env.paid("10.00")
    made = [await env.refund(first["charge_id"], "1.00", external_id="lote") for _ in range(4)]
    made += [await env.refund(second["charge_id"], "1.00") for _ in range(3)]
    await env.end_at_bank(made[0], made[5])
    await env.end_at_bank(made[1], failure=FailureCode.BANK_REFUSED)
    ids = [each["refund_id"] for each in made]

    async def listed(query: str) -> list[str]:
        found, cursor = [], ""
        for _ in range(20):
            page = await env.get(f"/v1/refunds?limit=2&order=asc{query}{cursor}")
            assert all(list(each) == FIELDS for each in page["data"])
            found += [each["refund_id"] for each in page["data"]]
            if page["next_cursor"] is None:
                return found
            cursor = f"&cursor={page['next_cursor']}"
        raise AssertionError("the list has more than 20 pages")

    today_ = datetime.now(UTC).astimezone().date()
    assert await listed("") == ids
    assert await listed(f"&charge_id={first['charge_id']}") == ids[:4]
    assert await listed(f"&payment_id={second['payment']['payment_id']}") == ids[4:]
    assert await listed(f"&payment_id={second['payment']['payment_id']}&charge_id={first['charge_id']}") == []
    assert await listed("&status=succeeded") == [ids[0], ids[5]]
    assert await listed("&status=succeeded&status=failed") == [ids[0], ids[1], ids[5]]
    assert await listed(f"&status=pending&charge_id={first['charge_id']}") == ids[2:4]
    assert await listed("&external_id=lote") == ids[:4]
    assert await listed("&external_id=lote&status=failed") == [ids[1]]
    assert await listed(f"&created_from={today_ - timedelta(days=1)}&created_to={today_ + timedelta(days=1)}") == ids
    assert await listed(f"&created_to={today_ - timedelta(days=2)}") == []
    for path in (f"/v1/charges/{first['charge_id']}/refunds", f"/v1/refunds?charge_id={first['charge_id']}"):
        assert [each["refund_id"] for each in (await env.get(path))["data"]] == ids[3::-1]
    page = await env.get(f"/v1/charges/{first['charge_id']}/refunds?limit=3")
    rest = await env.get(f"/v1/charges/{first['charge_id']}/refunds?limit=3&cursor={page['next_cursor']}")
    assert [each["refund_id"] for each in page["data"] + rest["data"]] == ids[3::-1]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("status=paid", "VALIDATION_ERROR"), ("charge_id=x", "VALIDATION_ERROR"), ("nope=1", "VALIDATION_ERROR"),
        ("limit=0", "LIMIT_INVALID"), ("cursor=x", "CURSOR_INVALID"), ("created_from=2026-02-30", "DATE_RANGE_INVALID"),
    ],
)  # fmt: skip
async def test_an_invalid_filter_of_the_refund_list_is_refused(env: Environment, query: str, code: str) -> None:
    assert (await env.api.get(f"/v1/refunds?{query}", token=await env.api.token())).code() == code


async def test_the_sandbox_bank_scenario_is_stored_with_the_bank_order(env: Environment) -> None:
    charge_id = (await env.paid())["charge_id"]
    assert (await env.ask(charge_id, more=[(b"x-sandbox-bank", b"nonsense")])).code() == "VALIDATION_ERROR"
    assert (await env.ask(charge_id, more=[(b"x-sandbox-bank", b"refuse")])).status == 201
    request = await env.pool.fetchval(
        including_ended_orders("SELECT request FROM bank_order WHERE charge_id = $1 AND kind = 'refund_return'"),
        UUID(charge_id),
    )
    assert msgspec.json.decode(request)["scenario"] == "refuse"


# The OpenAPI document


@pytest.fixture(scope="module")
async def document(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get("/v1/openapi.json", token=None)).json()
    return found


async def test_answers_of_the_refund_routes_conform_to_the_openapi_document(
    env: Environment, document: dict[str, Any]
) -> None:
    create, of_charge, one, every = (
        "/v1/charges/{charge_id}/refunds", "/v1/charges/{charge_id}/refunds", "/v1/refunds/{refund_id}", "/v1/refunds",
    )  # fmt: skip
    token, key = await env.api.token(), secrets.token_hex(8)
    charge_id = (await env.paid())["charge_id"]
    boleto = await env.boleto()
    made = [await env.ask(charge_id, {"amount": "1.00"}, key=key) for _ in range(2)]
    made += [await env.ask(charge_id, {"amount": "2.00"}), await env.ask(boleto, {"destination": DESTINATION})]
    refused = [
        await env.ask(charge_id, {"amount": "2.00"}, key=key), await env.ask(charge_id, {"amount": "9.00"}),
        await env.ask(charge_id, {"amount": 1}), await env.ask(charge_id, b"{"), await env.ask("x"),
        await env.ask(boleto), await env.ask((await env.api.create())["charge_id"]),
        await env.ask(charge_id, {"destination": DESTINATION}), await env.ask(charge_id, token="nobody"),
    ]  # fmt: skip
    assert [reply.status for reply in made] == [201, 200, 201, 201]
    await env.end_at_bank(made[0].json())
    await env.end_at_bank(made[2].json(), failure=FailureCode.TRANSFER_UNAVAILABLE)
    for reply in (*made, *refused):
        conforms(document, "post", create, reply)
    for refund in (*(each.json()["refund_id"] for each in made), str(uuid4())):
        conforms(document, "get", one, await env.api.get(f"/v1/refunds/{refund}", token=token))
    for path, documented_path in ((f"/v1/charges/{charge_id}/refunds", of_charge), ("/v1/refunds", every)):
        for query in ("", "?limit=1", "?limit=0", "?cursor=x", "?order=up"):
            conforms(document, "get", documented_path, await env.api.get(path + query, token=token))
    conforms(document, "get", "/v1/events", await env.api.get("/v1/events?limit=100", token=token))
    account = f"/v1/accounts/{env.api.first.account_id}/ledger"
    conforms(document, "get", "/v1/accounts/{account_id}/ledger", await env.api.get(account, token=token))


@pytest.mark.parametrize(
    ("body", "good"),
    [
        ({}, True), ({"amount": "0.01"}, True), ({"amount": None}, False), ({"amount": "0"}, False),
        ({"amount": 1}, False), ({"amount": ""}, False), ({"reason": "x" * 140, "description": "é" * 500}, True),
        ({"reason": None, "description": None, "external_id": None, "payment_id": None, "destination": None}, True),
        ({"reason": "x" * 141}, False), ({"external_id": "\x00"}, False), ({"payment_id": "x"}, False),
        ({"destination": DESTINATION | {"pix_key": "x"}}, False), ({"destination": {"pix_key": "1"}}, False),
        ({"destination": DESTINATION | {"document": "1"}}, False), ({"more": 1}, True),
    ],
    ids=repr,
)  # fmt: skip
async def test_a_refund_is_accepted_exactly_when_the_schema_accepts_it(
    env: Environment, document: dict[str, Any], body: dict[str, Any], good: bool
) -> None:
    assert body_of(document, "/v1/charges/{charge_id}/refunds").is_valid(body) is good
    assert (await env.ask(str(uuid4()), body)).status == (404 if good else 400)
