"""After payments, cancellations and refunds that succeed or fail, in any order, the books add up and equal a model.

Each example has its own account in a real database; the model is written from the contract (section 11).
"""

import asyncio
import os
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from commands.charges.cancel import cancellation
from commands.charges.change import change_charges
from commands.charges.pay import Confirmation, confirm_payments
from commands.money.refund import NewRefund, begin_refunds
from commands.money.refund_end import Ending, end_refunds
from domain.charge import CancelReason
from domain.errors import Refused
from domain.instants import to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from domain.refund import FailureCode
from readmodels.money.refund import RefundProjection, refund_by_id
from readmodels.verify import verify
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from tests.support.banking import make_account, make_charges, new_locations, utc_now

SEAL = Seal(bytes(32))
CHARGES = 3
AMOUNT = 10
"""Cents of each charge: so small that sums often reach their bounds."""


class Pay(Struct, frozen=True):
    charge: int
    cents: int


class Cancel(Struct, frozen=True):
    charge: int


class RequestRefund(Struct, frozen=True):
    """A refund of the charge's settling payment (None) or of its nth; of all that remains (None) or of some cents."""

    charge: int
    payment: int | None
    cents: int | None


class RequestRefundsTogether(Struct, frozen=True):
    asks: Sequence[RequestRefund]


class End(Struct, frozen=True):
    """These refunds end together; they are counted back from the newest."""

    refunds: Sequence[int]
    well: bool


_charge = st.integers(0, CHARGES - 1)
_refund_requests = st.builds(
    RequestRefund,
    _charge,
    st.sampled_from([None, None, None, 0, 1, 2]),
    st.none() | st.integers(1, AMOUNT + 2) | st.integers(1, 4),
)
_ends = st.builds(End, st.lists(st.integers(0, 11), min_size=1, max_size=6), st.sampled_from([True, True, False]))
STEPS = st.lists(
    # A step listed twice is drawn twice as often: most steps are payments and refunds.
    st.one_of(
        _refund_requests,
        _ends,
        _ends,
        st.builds(Pay, _charge, st.sampled_from([AMOUNT, AMOUNT, AMOUNT, 4, AMOUNT + 5])),
        st.builds(RequestRefundsTogether, st.lists(_refund_requests, min_size=2, max_size=6)),
        st.builds(Cancel, _charge),
    ),
    min_size=20,
    max_size=30,
)


class ModelPayment(Struct):
    cents: int
    settles: bool
    back: int = 0
    going: int = 0

    @property
    def remaining(self) -> int:
        return self.cents - self.back - self.going


class ModelCharge(Struct):
    status: str
    payments: list[ModelPayment]


class ModelRefund(Struct):
    charge: int
    payment: ModelPayment
    cents: int
    refund_id: UUID
    status: str = "pending"


class Model:
    """The state that the contract prescribes."""

    def __init__(self) -> None:
        self.charges = [ModelCharge("pending", []) for _ in range(CHARGES)]
        self.refunds: list[ModelRefund] = []

    @property
    def balance(self) -> int:
        return sum(payment.cents - payment.back - payment.going for each in self.charges for payment in each.payments)

    def pay(self, step: Pay) -> None:
        charge = self.charges[step.charge]
        settles = charge.status == "pending" and step.cents >= AMOUNT
        charge.payments.append(ModelPayment(step.cents, settles))
        if settles:
            charge.status = "paid"

    def ask(self, step: RequestRefund, refund_id: UUID) -> str:
        """Returns the code of the refusal, or empty text when the refund begins."""
        charge = self.charges[step.charge]
        if step.payment is None:
            found = [payment for payment in charge.payments if payment.settles]
        else:
            found = charge.payments[step.payment : step.payment + 1]
        if not found:
            return "CHARGE_NOT_REFUNDABLE"
        (payment,) = found
        cents = payment.remaining if step.cents is None else step.cents
        if not 0 < cents <= payment.remaining:
            return "REFUND_EXCEEDS"
        payment.going += cents
        self.refunds.append(ModelRefund(step.charge, payment, cents, refund_id))
        return ""

    def end(self, refund: ModelRefund, *, well: bool) -> None:
        if refund.status != "pending":
            return
        refund.status = "succeeded" if well else "failed"
        refund.payment.going -= refund.cents
        if well:
            refund.payment.back += refund.cents
            charge = self.charges[refund.charge]
            if charge.status == "paid" and all(payment.back == payment.cents for payment in charge.payments):
                charge.status = "refunded"


class Books:
    """The same operations on the real database."""

    def __init__(self, pool: Pool, account: UUID, charges: list[UUID]) -> None:
        self.pool = pool
        self.account = account
        self.charges = charges

    async def pay(self, step: Pay) -> None:
        confirmation = Confirmation(
            charge_id=self.charges[step.charge], end_to_end_id=f"E{secrets.token_hex(15)}", amount_cents=step.cents,
            paid_at=utc_now() - timedelta(seconds=1),
        )  # fmt: skip
        async with transaction(self.pool) as conn:
            await confirm_payments(conn, [confirmation], now=utc_now(), seal=SEAL, fees=NO_FEES)

    async def cancel(self, step: Cancel) -> None:
        change = cancellation(
            self.charges[step.charge], None, reason=CancelReason.CANCELLED, actor="test", request_id=None
        )
        async with transaction(self.pool) as conn:
            await change_charges(conn, [change], now=_now())

    async def ask(self, asks: Sequence[RequestRefund], ids: Sequence[UUID]) -> list[str]:
        new_refunds = [
            NewRefund(
                owner=Owner(self.account, Mode.SANDBOX), key=str(refund_id), fingerprint=bytes(32), refund_id=refund_id,
                charge_id=self.charges[each.charge], amount_cents=each.cents,
                payment_id=None if each.payment is None else await self._payment(each.charge, each.payment),
                reason=None, description=None, external_id=None, destination=None, scenario=None,
                actor="test", request_id="test",
            )
            for each, refund_id in zip(asks, ids, strict=True)
        ]  # fmt: skip
        async with transaction(self.pool) as conn:
            answers = await begin_refunds(conn, new_refunds, now=_now(), transfers_cents_max=500_000)
        return [answer.code.name if isinstance(answer, Refused) else "" for answer in answers]

    async def end(self, refunds: Sequence[ModelRefund], *, well: bool) -> None:
        endings = [
            Ending(
                charge_id=self.charges[each.charge],
                refund_id=each.refund_id,
                failure=None if well else FailureCode.NOT_CARRIED_OUT,
            )
            for each in refunds
        ]
        async with transaction(self.pool) as conn:
            await end_refunds(conn, endings, now=_now())

    async def _payment(self, charge: int, position: int) -> UUID:
        """The id of the nth payment in the order of booking; an unknown id when there are fewer payments."""
        found = await self.pool.fetchval(
            "SELECT payment_id FROM read_ledger WHERE charge_id = $1 AND type = 'payment'"
            " ORDER BY sequence OFFSET $2 LIMIT 1",
            self.charges[charge], position,
        )  # fmt: skip
        return found or new_id()


@pytest.fixture(scope="module")
async def journaled(servers: Any) -> AsyncIterator[None]:
    """After the tests, the read tables still follow from the journal."""
    before = await verify(servers.database_url)  # differences that other tests caused are not counted
    yield
    assert await verify(servers.database_url) == before


def _now() -> datetime:
    return to_millisecond(utc_now())


@settings(
    max_examples=200 if os.environ.get("FAULT") == "full" else 25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
async def test_the_books_add_up_and_agree_with_the_model(pool: Pool, journaled: None, steps: list[Any]) -> None:
    account = await make_account(pool)
    charges = await make_charges(pool, account, new_locations(CHARGES), test=True, amount_cents=AMOUNT)
    model, books = Model(), Books(pool, account, charges)
    steps = [Pay(0, AMOUNT), Pay(1, AMOUNT), *steps]
    for step in steps:
        match step:
            case Pay():
                model.pay(step)
                await books.pay(step)
            case Cancel(which):
                if model.charges[which].status == "pending":
                    model.charges[which].status = "cancelled"
                await books.cancel(step)
            case RequestRefund() | RequestRefundsTogether():
                asks = [step] if isinstance(step, RequestRefund) else list(step.asks)
                ids = [new_id() for _ in asks]
                expected = [model.ask(ask, refund_id) for ask, refund_id in zip(asks, ids, strict=True)]
                assert await books.ask(asks, ids) == expected
            case End(positions, well):
                # The newest refunds, because most of the older ones have ended.
                last = len(model.refunds) - 1
                ending = [model.refunds[last - each] for each in dict.fromkeys(positions) if each <= last]
                if ending:
                    await books.end(ending, well=well)
                for each in ending:
                    model.end(each, well=well)
        await _assert_books_equal_model(pool, model, books)
    for charge in model.charges:
        event(charge.status)
    for refund in model.refunds:
        event(refund.status)


async def _assert_books_equal_model(pool: Pool, model: Model, books: Books) -> None:
    rows = await pool.fetch(
        "SELECT sequence, amount_cents, balance_after_cents, type, refund_id FROM read_ledger"
        " WHERE account_id = $1 AND test ORDER BY sequence", books.account,
    )  # fmt: skip
    assert [row["sequence"] for row in rows] == list(range(1, len(rows) + 1))
    balance = 0
    for row in rows:
        balance += row["amount_cents"]
        assert row["balance_after_cents"] == balance >= 0
    assert balance == model.balance
    debits = {row["refund_id"]: -row["amount_cents"] for row in rows if row["type"] == "refund"}
    assert debits == {each.refund_id: each.cents for each in model.refunds}
    credits = {row["refund_id"]: row["amount_cents"] for row in rows if row["type"] == "refund_reversal"}
    assert credits == {each.refund_id: each.cents for each in model.refunds if each.status == "failed"}
    for charge_id, charge in zip(books.charges, model.charges, strict=True):
        shown = await pool.fetchrow(
            "SELECT c.status, c.refunded_cents, r.doc FROM charge c JOIN charge_view r USING (charge_id)"
            " WHERE charge_id = $1", charge_id,
        )  # fmt: skip
        assert shown is not None
        assert (shown["status"], shown["refunded_cents"]) == (
            charge.status, sum(payment.back for payment in charge.payments),
        )  # fmt: skip
        payments = await pool.fetch(
            "SELECT p.amount_cents, p.refunded_cents, p.refunding_cents FROM read_ledger l"
            " JOIN payment p USING (payment_id) WHERE l.charge_id = $1 AND l.type = 'payment'"
            " ORDER BY l.sequence", charge_id,
        )  # fmt: skip
        assert [tuple(payment) for payment in payments] == [
            (payment.cents, payment.back, payment.going) for payment in charge.payments
        ]
    async with pool.acquire() as conn:
        for each in model.refunds:
            found = await refund_by_id(conn, each.refund_id, Owner(books.account, Mode.SANDBOX))
            assert isinstance(found, RefundProjection)
            assert found.status == each.status
            assert round(float(found.refundable_remaining) * 100) == each.payment.remaining


async def test_concurrent_payments_refunds_and_endings_never_deadlock_and_the_books_add_up(
    pool: Pool, journaled: None
) -> None:
    """Batches of payments, refunds and endings on the same charges, on several connections."""
    account = await make_account(pool)
    charges = await make_charges(pool, account, new_locations(20), test=True, amount_cents=100)
    books = Books(pool, account, charges)
    for number in range(20):
        await books.pay(Pay(number, 100))
    rng = random.Random(7)
    begun_refunds: list[ModelRefund] = []
    unused_payment = ModelPayment(0, True)

    async def ask() -> None:
        for _ in range(25):
            asks = [RequestRefund(number, None, 3) for number in rng.sample(range(20), 6)]
            ids = [new_id() for _ in asks]
            codes = await books.ask(asks, ids)
            begun_refunds.extend(
                ModelRefund(each.charge, unused_payment, 3, refund_id)
                for each, refund_id, code in zip(asks, ids, codes, strict=True)
                if not code
            )

    async def end() -> None:
        for _ in range(40):
            ending = rng.sample(begun_refunds, min(len(begun_refunds), 8))
            if ending:
                await books.end(ending, well=rng.random() < 0.5)
            await asyncio.sleep(0.002)

    async def pay() -> None:
        for _ in range(40):
            await books.pay(Pay(rng.randrange(20), 100))

    await asyncio.gather(ask(), ask(), ask(), end(), end(), pay(), pay())
    await books.end(begun_refunds[:100], well=True)
    row = await pool.fetchrow(
        "SELECT sum(amount_cents - refunded_cents - refunding_cents) AS still_there,"
        " (SELECT balance_cents FROM account_clock WHERE account_id = $1) AS balance"
        " FROM payment WHERE account_id = $1", account,
    )  # fmt: skip
    assert row is not None
    assert row["still_there"] == row["balance"]
    assert len(begun_refunds) > 200
