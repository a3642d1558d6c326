"""Refunds by transfer that staff must decide on: accepted and debited, not sent until released, and sent once."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from commands.money.held_refunds import AlreadyDecided, refuse_refund, release_refund
from commands.money.refund import begin_refunds
from commands.payers.erase import erase_charges
from domain.errors import Refused
from domain.instants import SAO_PAULO, to_millisecond
from readmodels.money.refund import RefundProjection
from runtime.ids import first_id, new_id
from runtime.postgres import session, transaction
from tests.integration.workers.test_refund_orders import TO, Environment, bank, env
from tests.support.banking import BANK, utc_now
from workers.incoming.statement import find_refunds_not_listed
from workers.orders.lease import release_orders

__all__ = ["bank", "env"]

BOUND = 10_000


async def begin_transfer(
    env: Environment, charge_id: UUID, cents: int | None = None, *, now: datetime | None = None
) -> UUID:
    """Begin a refund by transfer, with a daily bound of 100.00."""
    asked = env.new_refund(charge_id, cents, to=TO)
    async with transaction(env.pool) as conn:
        (begun,) = await begin_refunds(conn, [asked], now=to_millisecond(now or utc_now()), transfers_cents_max=BOUND)
    assert isinstance(begun, RefundProjection), begun
    assert begun.status == "pending"
    return asked.refund_id


async def held(env: Environment, refund_id: UUID) -> str | None:
    """Why the refund is held; None if it is not."""
    why: str | None = await env.pool.fetchval("SELECT why FROM held_refund WHERE refund_id = $1", refund_id)
    return why


async def released(env: Environment, refund_id: UUID, by: str = "ana") -> None:
    async with transaction(env.pool) as conn:
        await release_refund(conn, refund_id, by=by, reason=None, now=to_millisecond(utc_now()))


async def refused(env: Environment, refund_id: UUID, by: str = "bia") -> None:
    async with transaction(env.pool) as conn:
        await refuse_refund(conn, refund_id, by=by, reason="suspeita", now=to_millisecond(utc_now()))


async def begin_held_refund(env: Environment, cents: int = 1000) -> tuple[UUID, UUID]:
    """Begin a refund by transfer of an account that is not approved; return the charge and the refund."""
    charge_id = await env.paid_boleto(cents=cents)
    await env.pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", env.account)
    refund_id = await begin_transfer(env, charge_id)
    return charge_id, refund_id


async def test_a_refund_by_transfer_of_an_account_not_approved_is_held_for_staff(env: Environment) -> None:
    pix = await env.paid()
    balance = await env.balance()
    charge_id, refund_id = await begin_held_refund(env)
    assert await held(env, refund_id) == "not_approved"
    assert await env.balance() == balance, "the held refund is debited"
    await env.run_worker(charge_id, rounds=2)
    assert (await env.found(refund_id)).held
    assert await env.status(refund_id) == ("pending", None)
    assert await env.sent(refund_id) == []
    # A refund to the paying account is not held.
    returned = await env.refund(pix)
    await env.run_worker(pix)
    assert await env.status(returned) == ("succeeded", None)
    assert not (await env.found(returned)).held


async def test_a_refund_by_transfer_that_exceeds_the_daily_bound_is_held(env: Environment) -> None:
    charge_id = await env.paid_boleto(cents=50_000)
    first, over, rest = [await begin_transfer(env, charge_id, cents) for cents in (8_000, 2_001, 2_000)]
    assert [await held(env, each) for each in (first, over, rest)] == [None, "over_bound", None]
    # The bound counts anew each day in Sao Paulo.
    here = utc_now().astimezone(SAO_PAULO)
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert (
        await held(env, await begin_transfer(env, charge_id, 1, now=midnight - timedelta(milliseconds=1)))
        == "over_bound"
    )
    assert await held(env, await begin_transfer(env, charge_id, BOUND, now=midnight)) is None
    await env.run_worker(charge_id)
    assert await env.sent(first) == [8_000]
    assert await env.sent(over) == []


async def test_failed_refunds_and_sandbox_refunds_do_not_count_towards_the_daily_bound(env: Environment) -> None:
    charge_id = await env.paid_boleto(cents=BOUND)
    await env.set_bank_rules(fails=True)
    failed = await begin_transfer(env, charge_id)
    await env.run_worker(charge_id)
    assert await env.status(failed) == ("failed", "NOT_CARRIED_OUT")
    assert await held(env, await begin_transfer(env, charge_id)) is None
    test = await env.paid_boleto(test=True, cents=3 * BOUND)
    refund_id = await env.refund(test, test=True, to=TO)
    assert await held(env, refund_id) is None


async def test_concurrent_refunds_together_keep_the_daily_bound(env: Environment) -> None:
    charges = [await env.paid_boleto(cents=3_000) for _ in range(8)]
    made = await asyncio.gather(*(begin_transfer(env, charge_id) for charge_id in charges))
    why = [await held(env, each) for each in made]
    assert (why.count(None), why.count("over_bound")) == (BOUND // 3_000, 8 - BOUND // 3_000)
    # The same for refunds begun in one transaction.
    await env.pool.execute("UPDATE refund SET transfer_day = transfer_day - 1 WHERE account_id = $1", env.account)
    charges = [await env.paid_boleto(cents=4_000) for _ in range(5)]
    asked = [env.new_refund(charge_id, to=TO) for charge_id in charges]
    async with transaction(env.pool) as conn:
        begun = await begin_refunds(conn, asked, now=to_millisecond(utc_now()), transfers_cents_max=BOUND)
    assert all(isinstance(each, RefundProjection) for each in begun)
    assert [await held(env, each.refund_id) for each in asked] == [None, None, *["over_bound"] * 3]


async def test_a_refund_counts_an_uncommitted_refund_towards_the_daily_bound(env: Environment) -> None:
    first, second = [await env.paid_boleto(cents=6_000) for _ in range(2)]
    asked = env.new_refund(first, to=TO)
    async with transaction(env.pool) as conn:
        await begin_refunds(conn, [asked], now=to_millisecond(utc_now()), transfers_cents_max=BOUND)
        other = asyncio.create_task(begin_transfer(env, second))
        await asyncio.wait([other], timeout=0.3)
    assert await held(env, await other) == "over_bound"
    assert await held(env, asked.refund_id) is None


async def test_a_released_refund_is_looked_for_among_transfers_and_not_among_devolucoes(
    env: Environment,
) -> None:
    """This is the comparison of our refunds with what the bank lists."""
    charge_id, refund_id = await begin_held_refund(env)
    await released(env, refund_id)
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("succeeded", None)
    created_at = await env.pool.fetchval("SELECT created_at FROM refund WHERE refund_id = $1", refund_id)
    found = {}
    for transfers in (False, True):
        async with session(env.pool) as conn:
            rows = await find_refunds_not_listed(
                conn, bank=BANK, first_id=first_id(created_at - timedelta(seconds=1)),
                last_id=first_id(created_at + timedelta(seconds=1)), transfers=transfers, listed=[], limit=1000,
            )  # fmt: skip
        found[transfers] = refund_id in {row.id for row in rows}
    assert found == {False: False, True: True}


async def test_a_released_refund_is_sent_once_though_a_worker_dies(env: Environment) -> None:
    charge_id, refund_id = await begin_held_refund(env)
    await released(env, refund_id)
    # No worker is woken. The one that finds the order dies after the bank was called.
    env.bank.wire.fault = "lost_reply"
    await env.run_worker(charge_id)
    env.bank.wire.fault = "up"
    await env.pool.execute(
        "UPDATE bank_order SET state = 'working', lease_until = now() - interval '1 second' WHERE charge_id = $1"
        " AND state = 'waiting'", charge_id,
    )  # fmt: skip
    await release_orders(env.context)
    await env.run_worker(charge_id, rounds=2)
    assert await env.status(refund_id) == ("succeeded", None)
    assert await env.sent(refund_id) == [1000]
    row = await env.pool.fetchrow("SELECT state, decided_by FROM held_refund WHERE refund_id = $1", refund_id)
    assert row is not None
    assert tuple(row) == ("released", "ana")


async def test_a_refund_staff_refuse_is_credited_back_and_can_be_requested_again(env: Environment) -> None:
    charge_id, refund_id = await begin_held_refund(env)
    _, other = await begin_held_refund(env)
    for decide, reason in ((refuse_refund, ""), (release_refund, "x" * 501)):
        with pytest.raises(Refused, match="VALIDATION_ERROR"):
            async with transaction(env.pool) as conn:
                await decide(conn, refund_id, by="bia", reason=reason, now=to_millisecond(utc_now()))
    await refused(env, refund_id)
    assert await env.status(refund_id) == ("failed", "NOT_RELEASED")
    assert await env.balance() == 1000
    assert (await env.events(charge_id))[-1] == "refund.failed"
    await env.pool.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1", env.account)
    again = await begin_transfer(env, charge_id)
    assert await held(env, again) is None
    await env.run_worker(charge_id)
    assert (await env.sent(refund_id), await env.sent(again)) == ([], [1000])
    assert await env.pool.fetchval("SELECT state FROM held_refund WHERE refund_id = $1", other) == "open"


async def test_the_destination_of_an_erased_payers_refund_is_deleted_once_staff_decided(env: Environment) -> None:
    """The account may refund to others: otherwise a transfer of a charge whose payer was erased is refused."""
    charge_id = await env.paid_boleto(cents=3_000)
    await env.pool.execute(
        "UPDATE account SET kyc = 'blocked', refunds_to_others = 'insurer' WHERE account_id = $1", env.account
    )
    before = await begin_transfer(env, charge_id, 1_000)
    await refused(env, before)
    kept = "SELECT count(*) FROM held_refund WHERE refund_id = ANY($1) AND request ? 'destination_sealed'"
    assert await env.pool.fetchval(kept, [before]) == 1, "staff see the destination until the payer is erased"
    async with session(env.pool) as conn:
        assert await erase_charges(conn, env.account, [charge_id], now=to_millisecond(utc_now())) == [charge_id]
    sent, not_sent = [await begin_transfer(env, charge_id, 1_000) for _ in range(2)]
    await released(env, sent)
    await refused(env, not_sent)
    await env.run_worker(charge_id)
    assert await env.sent(sent) == [1_000]
    assert await env.pool.fetchval(kept, [before, sent, not_sent]) == 0


Decision = Callable[[Environment, UUID, str], Coroutine[Any, Any, None]]


@pytest.mark.parametrize(
    ("first", "second"),
    [(released, released), (released, refused), (refused, released), (refused, refused)],
    ids=["both release", "release first", "refuse first", "both refuse"],
)
async def test_the_first_of_two_staff_decisions_holds_and_the_second_is_rejected(
    env: Environment, first: Decision, second: Decision
) -> None:
    charge_id, refund_id = await begin_held_refund(env)
    now = to_millisecond(utc_now())
    async with transaction(env.pool) as conn:
        if first is released:
            await release_refund(conn, refund_id, by="ana", reason=None, now=now)
        else:
            await refuse_refund(conn, refund_id, by="bia", reason="suspeita", now=now)
        late = asyncio.create_task(second(env, refund_id, "caio"))
        done, _ = await asyncio.wait([late], timeout=0.3)
        assert not done, "the second decision waits for the first"
    with pytest.raises(AlreadyDecided):
        await late
    await env.run_worker(charge_id, rounds=2)
    sent = first is released
    assert await env.status(refund_id) == (("succeeded", None) if sent else ("failed", "NOT_RELEASED"))
    assert await env.sent(refund_id) == ([1000] if sent else [])
    assert await env.balance() == (0 if sent else 1000)


async def test_a_decision_on_an_unknown_refund_is_rejected(env: Environment) -> None:
    with pytest.raises(AlreadyDecided):
        await released(env, new_id())
