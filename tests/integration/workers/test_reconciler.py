"""The bank's lists are read to their end, whatever they contain, however long they are, and wherever a worker died."""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace

from banks.boletos import BoletoState
from banks.protocol import Done
from banks.received import PixReturn, ReceivedPix
from banks.simulated.bank import BookedPix
from banks.simulated.shown import shown_pix
from commands.money import suspense
from commands.money.refund import NewRefund, begin_refunds
from commands.money.refund_end import Ending, end_refunds
from commands.money.suspense import NotOpen, assign_suspense, return_suspense
from domain.errors import Refused
from domain.instants import SAO_PAULO, iso, to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from domain.refund import FailureCode
from readmodels.verify import verify
from runtime.cells.number import HOME
from runtime.coordination.leases import take_lease
from runtime.ids import new_id
from runtime.postgres import Pool, open_pool, session, transaction
from runtime.seal import SUSPENDED_PAYER, UNREADABLE
from tests.support.banking import (
    BANK,
    RunningBank,
    make_account,
    make_charges,
    running_bank,
    status_of,
    utc_now,
    worker_context,
)
from tests.support.boletos import issue
from tests.support.database import own_database
from tests.support.partners import new_charge
from workers.context import Context
from workers.incoming import passes
from workers.incoming.boleto_payments import book_boletos
from workers.incoming.comparison import Comparison
from workers.incoming.own_share import OwnShare
from workers.incoming.pix_payments import book_pix
from workers.incoming.reconciler import PIX_PASSES, reconcile, reconcile_boletos
from workers.incoming.slices import BankSilent
from workers.incoming.statement import _BankStatement
from workers.orders import callback_keys
from workers.orders.pix import PixOrderWorker
from workers.orders.refund import RefundOrderWorker

COUNT = int(os.environ.get("QUITA_TEST_PIX", "2500"))
"""How many PIX arrive during an outage; QUITA_TEST_PIX=250000 tests the bound of the contract."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def url(servers: Any) -> AsyncIterator[str]:
    async with own_database(servers, "reconciler") as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def books(url: str) -> AsyncIterator[Pool]:
    pool = await open_pool(url, name="tests", size=8)
    yield pool
    await pool.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(books: Pool) -> AsyncIterator[RunningBank]:
    async with running_bank(books) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def context(books: Pool, servers: Any, bank: RunningBank) -> AsyncIterator[Context]:
    bank.wire.fault = "up"
    bank.wire.pages_max = 1_000
    await books.execute("DELETE FROM bank_reconciled")
    await books.execute("DELETE FROM lease")
    async with worker_context(books, servers.redis_url, bank.adapter()) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def account(books: Pool) -> UUID:
    return await make_account(books)


async def registered_charge(context: Context, account: UUID, **more: Any) -> UUID:
    made = await context.banks.production[BANK].pix.create_locations(1)
    assert isinstance(made, Done)
    (charge_id,) = await make_charges(context.pool, account, made.value, test=False, **more)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    return charge_id


async def pay(bank: RunningBank, **of: Any) -> list[str]:
    status, answer = await bank.control("pay", **of)
    assert status == 200, answer
    return [each["end_to_end_id"] for each in answer["payments"]]


async def reconcile_until_idle(context: Context, count: int = 500) -> None:
    """Run the reconciler until it finds nothing, at an instant whose window covers all payments so far."""
    context.now = lambda: utc_now() + timedelta(seconds=2)
    for _ in range(count):
        if not await reconcile(context, BANK):
            return
    raise AssertionError("the reconciler does not come to an end")


async def run_nightly_passes(context: Context, *, days: int = 1) -> None:
    """Run the passes of a later night until they find nothing."""
    at = utc_now() + timedelta(days=days, hours=4)
    context.now = lambda: at
    for _ in range(500):
        if not await reconcile(context, BANK):
            return
    raise AssertionError("the reconciler does not come to an end")


async def suspense_of(context: Context, source: str) -> Any:
    return await context.pool.fetchrow("SELECT * FROM suspense WHERE source = $1", source)


async def balance(context: Context, account: UUID) -> int:
    found = await context.pool.fetchval(
        "SELECT balance_cents FROM account_clock WHERE account_id = $1 AND NOT test", account
    )
    return int(found or 0)


async def assert_books_are_clean(url: str) -> None:
    assert await verify(url) == []


async def store_payments(context: Context, charge_ids: list[UUID], paid_at: list[datetime]) -> None:
    """Put payments into the bank's books, without callbacks."""
    await context.pool.execute(
        "INSERT INTO simulated_pix (world, end_to_end_id, txid, amount_cents, paid_at, payer_name, payer_document)"
        " SELECT 'production', 'E99999994' || substr(md5(c::text || n::text), 1, 23), replace(c::text, '-', ''), 100,"
        " t, 'X', '00000000191' FROM unnest($1::uuid[], $2::timestamptz[]) WITH ORDINALITY AS g (c, t, n)",
        charge_ids, paid_at,
    )  # fmt: skip


async def test_a_worker_without_the_lease_does_not_read_the_banks_list(context: Context, bank: RunningBank) -> None:
    await reconcile_until_idle(context)
    async with session(context.pool) as conn:
        assert await take_lease(conn, name=f"reconciler:pix:{BANK}", holder="another", lease_s=60)
    bank.requests.clear()
    assert await reconcile(context, BANK) == 0
    assert bank.requests == []
    await context.pool.execute("DELETE FROM lease")


async def test_a_payment_the_bank_lists_days_late_is_booked_by_the_nightly_pass(
    context: Context, account: UUID, url: str
) -> None:
    await reconcile_until_idle(context)
    charge_id = await registered_charge(context, account, amount_cents=100)
    await store_payments(context, [charge_id], [utc_now() - timedelta(days=5)])
    await reconcile_until_idle(context)
    assert await status_of(context.pool, charge_id) == "pending"
    await run_nightly_passes(context)
    assert await status_of(context.pool, charge_id) == "paid"
    await assert_books_are_clean(url)


async def test_an_unreadable_pix_is_set_aside_and_does_not_stop_the_reconciler(
    context: Context, account: UUID, bank: RunningBank, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await reconcile_until_idle(context)
    charge_id = await registered_charge(context, account)
    (odd,) = await pay(bank, stray=True, amount="3.00", garbled=True)
    await pay(bank, charge_id=str(charge_id))
    await reconcile_until_idle(context)
    assert await status_of(context.pool, charge_id) == "paid"
    (row,) = await context.pool.fetch("SELECT * FROM bank_unreadable")
    assert (row["bank"], row["method"], row["about"]) == (BANK, "pix", odd)
    assert b"PAGADOR" not in row["item_sealed"]
    assert b"PAGADOR" in context.seal.open(row["item_sealed"], UNREADABLE, f"{BANK} pix {odd}")
    # Once the bank lists it in readable form, it is handled like any PIX and no longer set aside.
    (later,) = await pay(bank, stray=True, amount="4.00", garbled=True)
    await context.pool.execute("UPDATE simulated_pix SET garbled = false WHERE end_to_end_id = $1", odd)
    await run_nightly_passes(context)
    assert [row["about"] for row in await context.pool.fetch("SELECT about FROM bank_unreadable")] == [later]
    # After more than a week an operator has the nightly pass begin earlier, once (docs/production.md).
    await context.pool.execute("UPDATE simulated_pix SET garbled = false WHERE end_to_end_id = $1", later)
    await run_nightly_passes(context, days=9)
    assert await context.pool.fetchval("SELECT count(*) FROM bank_unreadable") == 1
    await context.pool.execute(
        "UPDATE bank_reconciled SET until = $2, goal = $2, window_until = NULL, after = NULL"
        " WHERE bank = $1 AND method = 'pix' AND pass = 'nightly'", BANK, utc_now() - timedelta(days=1),
    )  # fmt: skip
    await run_nightly_passes(context, days=10)
    assert await context.pool.fetchval("SELECT count(*) FROM bank_unreadable") == 0
    assert (await suspense_of(context, odd))["kind"] == "pix_without_txid"
    await assert_books_are_clean(url)


async def test_a_comparison_does_not_take_a_booked_pix_that_became_unreadable_for_one_that_is_not_listed(
    context: Context, account: UUID, bank: RunningBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for, its charge cannot be read either: the comparison ended as if the bank were silent, each time."""
    charge_id = await registered_charge(context, account)
    (end_to_end_id,) = await pay(bank, charge_id=str(charge_id))
    await reconcile_until_idle(context)
    await context.pool.execute("UPDATE simulated_pix SET garbled = true WHERE end_to_end_id = $1", end_to_end_id)
    now = utc_now()
    comparison = Comparison(since=now - timedelta(minutes=5), until=now + timedelta(seconds=2))
    share = OwnShare(HOME, frozenset(), ())
    await _BankStatement(context, BANK, comparison, share).compare_received_pix()
    found = [(each.what, each.reference) for each in comparison.differences]
    assert ("unreadable", end_to_end_id) in found
    assert end_to_end_id not in [reference for what, reference in found if what != "unreadable"]
    # Listed on another day, and its charge is answered as unreadable: the comparison goes on past this one charge.
    await context.pool.execute(
        "UPDATE simulated_pix SET paid_at = paid_at - interval '1 day' WHERE end_to_end_id = $1", end_to_end_id
    )
    comparison.differences.clear()
    await _BankStatement(context, BANK, comparison, share).compare_received_pix()
    assert ("unanswered", end_to_end_id) in [(each.what, each.reference) for each in comparison.differences]
    monkeypatch.setattr("workers.incoming.statement._UNANSWERED_MAX", 0)
    with pytest.raises(BankSilent):
        await _BankStatement(context, BANK, comparison, share).compare_received_pix()
    await context.pool.execute("UPDATE simulated_pix SET garbled = false WHERE end_to_end_id = $1", end_to_end_id)


@pytest.mark.parametrize("written", ["%Y-%m-%dT%H:%M:%S.000-03:00", "%Y-%m-%dT%H:%M:%S"], ids=["offset", "no offset"])
async def test_a_pix_listed_in_brasilia_time_is_shown_in_utc_and_its_refund_succeeds(
    context: Context, account: UUID, bank: RunningBank, url: str, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setattr("banks.simulated.shown.iso", lambda at: at.astimezone(SAO_PAULO).strftime(written))
    await reconcile_until_idle(context)
    charge_id = await registered_charge(context, account)
    await pay(bank, charge_id=str(charge_id))
    await reconcile_until_idle(context)
    row = await context.pool.fetchrow(
        "SELECT p.paid_at, r.paid_at AS listed_at, j.payload #>> '{payment,paid_at}' AS shown, j.event_body"
        " FROM payment p JOIN read_payment r USING (payment_id) JOIN journal j USING (journal_id)"
        " WHERE p.charge_id = $1",
        charge_id,
    )
    assert row is not None
    told = msgspec.json.decode(row["event_body"])["paid_at"]
    assert (told, row["shown"], row["listed_at"]) == (iso(row["paid_at"]), iso(row["paid_at"]), row["paid_at"])
    async with transaction(context.pool) as conn:
        (begun,) = await begin_refunds(
            conn, [refund_of(account, charge_id)], now=utc_now(), transfers_cents_max=500_000
        )
    assert begun is not None
    assert not isinstance(begun, Refused)
    await RefundOrderWorker(context, Mode.PRODUCTION).drain()
    status = await context.pool.fetchval("SELECT status FROM refund WHERE refund_id = $1", UUID(begun.refund_id))
    assert (status, await status_of(context.pool, charge_id)) == ("succeeded", "refunded")
    await assert_books_are_clean(url)


@pytest.mark.parametrize(
    ("odd", "kept"),
    [
        ({"txid": "A\0B"}, "pix_without_txid"),
        ({"txid": secrets.token_hex(5_000)}, "pix_without_txid"),
        ({"devolucoes": [{"id": "D1", "valor": "1.00", "status": "DEVOLVIDO", "rtrId": "D\0"}]}, "pix_without_txid"),
        ({"devolucoes": [{"id": "D\0", "valor": "1.00", "status": "DEVOLVIDO"}]}, "pix_without_txid"),
        ({"endToEndId": secrets.token_hex(5_000)}, None),
        ({"horario": "9999-12-31T23:59:59-03:00"}, None),
        ({"horario": "0001-01-01T00:00:00+03:00"}, None),
    ],
    ids=["a txid with NUL", "an endless txid", "an rtrId with NUL", "a devolucao with NUL", "an endless endToEndId",
         "the last day", "the first day"],
)  # fmt: skip
async def test_a_pix_with_values_that_cannot_be_stored_does_not_stop_the_reconciler(
    context: Context, account: UUID, bank: RunningBank, url: str, monkeypatch: pytest.MonkeyPatch,
    odd: dict[str, Any], kept: str | None,
) -> None:  # fmt: skip
    await reconcile_until_idle(context)
    charge_id = await registered_charge(context, account)
    (source,) = await pay(bank, stray=True, amount="3.00")
    await pay(bank, charge_id=str(charge_id))

    def shown_oddly(pix: BookedPix, returns: Any = ()) -> dict[str, Any]:
        return shown_pix(pix, returns) | (odd if pix.end_to_end_id == source else {})

    monkeypatch.setattr("banks.simulated.wire.shown_pix", shown_oddly)
    await reconcile_until_idle(context)
    assert await status_of(context.pool, charge_id) == "paid"
    row = await suspense_of(context, source)
    assert (None if row is None else row["kind"]) == kept
    set_aside = await context.pool.fetchval("SELECT count(*) FROM bank_unreadable")
    assert set_aside == (kept is None or "D\0" in str(odd.get("devolucoes", [{}])[0].get("id")))
    await context.pool.execute("DELETE FROM bank_unreadable")
    await assert_books_are_clean(url)


# Suspense


async def test_a_pix_that_fits_no_charge_is_in_suspense_once(
    context: Context, account: UUID, bank: RunningBank, url: str
) -> None:
    (by_hand,) = await pay(bank, stray=True, amount="12.00")
    (unknown,) = await pay(bank, stray=True, amount="13.00", txid=new_id().hex)
    (foreign,) = await pay(bank, stray=True, amount="14.00", txid="DEOUTROPROGRAMA0000000000001")
    test_charge = await new_charge(context.pool, account, 1500, test=True)
    (of_test,) = await pay(bank, stray=True, amount="15.00", txid=test_charge.hex)
    # Once the money is in suspense, it is left to staff, even if its charge becomes known.
    for test in (True, False):
        await context.pool.execute("UPDATE charge SET test = $2 WHERE charge_id = $1", test_charge, test)
        await reconcile_until_idle(context)
        await context.pool.execute("UPDATE bank_reconciled SET until = until - interval '1 hour', goal = until")
    await context.pool.execute("UPDATE charge SET test = true WHERE charge_id = $1", test_charge)
    assert await context.pool.fetchval("SELECT count(*) FROM payment WHERE charge_id = $1", test_charge) == 0
    kinds = {source: (await suspense_of(context, source))["kind"] for source in (by_hand, unknown, foreign, of_test)}
    assert list(kinds.values()) == ["pix_without_txid", *["pix_unknown_txid"] * 3]
    row = await suspense_of(context, by_hand)
    assert (row["amount_cents"], row["state"], row["reference"]) == (1200, "open", None)
    assert msgspec.json.decode(context.seal.open(row["payer_sealed"], SUSPENDED_PAYER, by_hand))["document"]
    assert b"PAGADOR" not in row["payer_sealed"]
    assert await context.pool.fetchval("SELECT count(*) FROM suspense WHERE source = ANY($1)", list(kinds)) == 4
    await assert_books_are_clean(url)


async def test_suspended_money_is_assigned_once_and_becomes_a_regular_payment(
    context: Context, account: UUID, bank: RunningBank, url: str
) -> None:
    (source,) = await pay(bank, stray=True, amount="12.34")
    await reconcile_until_idle(context)
    suspense_id = (await suspense_of(context, source))["suspense_id"]
    charge_id = await registered_charge(context, account)

    async def assign(to: UUID) -> Any:
        async with transaction(context.pool) as conn:
            return await assign_suspense(
                conn, suspense_id, to, by="a@b.c", note=None, now=utc_now(), seal=context.seal, fees=NO_FEES
            )

    with pytest.raises(Refused, match="CHARGE_NOT_FOUND"):
        await assign(new_id())
    other = await registered_charge(context, account)
    outcomes = await gather_outcomes(assign(charge_id), assign(other), assign(charge_id))
    assert sorted(type(each).__name__ for each in outcomes) == ["Charge", "NotOpen", "NotOpen"]
    (payment,) = await context.pool.fetch("SELECT * FROM payment WHERE source = $1", source)
    paid = payment["charge_id"]
    assert (payment["settles"], payment["amount_cents"]) == (True, 1234)
    assert await status_of(context.pool, paid) == "paid"
    assert await balance(context, account) == 1234
    kinds = [row[0] for row in await context.pool.fetch(
        "SELECT kind FROM journal WHERE charge_id = $1 ORDER BY journal_id", paid)]  # fmt: skip
    assert kinds == ["charge.created", "payment.received", "suspense.assigned"]
    # The charge's own cob must not be paid as well.
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert await context.pool.fetchval(
        "SELECT status FROM simulated_cob WHERE txid = $1", paid.hex
    ) == "REMOVIDA_PELO_USUARIO_RECEBEDOR"  # fmt: skip
    await run_nightly_passes(context)
    assert await balance(context, account) == 1234
    await assert_books_are_clean(url)


async def test_suspended_money_that_was_returned_cannot_be_assigned(
    context: Context, account: UUID, bank: RunningBank, url: str
) -> None:
    sources = [*await pay(bank, stray=True, amount="5.00"), *await pay(bank, stray=True, amount="6.00")]
    (in_part,) = await pay(bank, stray=True, amount="7.00")
    await reconcile_until_idle(context)
    ids = [(await suspense_of(context, source))["suspense_id"] for source in sources]
    async with transaction(context.pool) as conn:
        await return_suspense(conn, ids[0], reference="D1", by="a@b.c", note="por engano", now=utc_now())
    # The bank itself reports the return of the second one.
    assert (await bank.control("take-back", end_to_end_id=sources[1]))[0] == 200
    assert (await bank.control("take-back", end_to_end_id=in_part, amount="2.00"))[0] == 200
    await run_nightly_passes(context)
    rest = await suspense_of(context, in_part)
    assert rest["state"] == "open", "part of the money is still here"
    async with transaction(context.pool) as conn:
        await return_suspense(conn, rest["suspense_id"], reference="D2", by="a@b.c", note=None, now=utc_now())
    rows = [await suspense_of(context, source) for source in sources]
    assert [(row["state"], row["settled_by"]) for row in rows] == [("returned", "a@b.c"), ("returned", "bank")]
    charge_id = await registered_charge(context, account)
    for suspense_id in ids:
        with pytest.raises(NotOpen):
            async with transaction(context.pool) as conn:
                await assign_suspense(
                    conn, suspense_id, charge_id, by="a@b.c", note=None, now=utc_now(), seal=context.seal, fees=NO_FEES
                )
    assert await balance(context, account) == 0
    await assert_books_are_clean(url)


async def test_verify_reports_books_that_disagree_with_suspense_or_with_the_bank(
    context: Context, account: UUID, bank: RunningBank, url: str
) -> None:
    charge_id = await registered_charge(context, account)
    (paid,) = await pay(bank, charge_id=str(charge_id))
    (stray,) = await pay(bank, stray=True, amount="7.00")
    await reconcile_until_idle(context)
    await assert_books_are_clean(url)
    for break_it, mend_it in (
        ("UPDATE payment SET reversed_cents = 1 WHERE source = $1 AND $2 <> ''",
         "UPDATE payment SET reversed_cents = 0 WHERE source = $1 AND $2 <> ''"),
        ("UPDATE suspense SET state = 'assigned', settled_at = now(), charge_id = gen_random_uuid() WHERE source = $2"
         " AND $1 <> ''",
         "UPDATE suspense SET state = 'open', settled_at = NULL, charge_id = NULL WHERE source = $2 AND $1 <> ''"),
        ("UPDATE suspense SET source = $1 WHERE source = $2", "UPDATE suspense SET source = $2 WHERE source = $1"),
    ):  # fmt: skip
        assert (await context.pool.execute(break_it, paid, stray)).endswith(" 1")
        assert {difference.table for difference in await verify(url)} == {"books"}
        assert (await context.pool.execute(mend_it, paid, stray)).endswith(" 1")
    await assert_books_are_clean(url)


# Money that the bank takes back


async def test_money_the_bank_takes_back_is_debited_from_the_wallet_once(
    context: Context, account: UUID, bank: RunningBank, url: str
) -> None:
    charge_id = await registered_charge(context, account)
    (end_to_end_id,) = await pay(bank, charge_id=str(charge_id))
    other_id = await registered_charge(context, await make_account(context.pool))
    (other_pix,) = await pay(bank, charge_id=str(other_id))
    await reconcile_until_idle(context)
    assert await balance(context, account) == 1234
    for amount in ("10.00", "2.34"):
        assert (await bank.control("take-back", end_to_end_id=end_to_end_id, amount=amount))[0] == 200
        await run_nightly_passes(context)
        await context.pool.execute("DELETE FROM bank_reconciled WHERE pass <> 'new'")
        await run_nightly_passes(context)
    assert await balance(context, account) == 0
    rows = await context.pool.fetch(
        "SELECT type, amount_cents, payment_id IS NOT NULL AS named FROM read_ledger WHERE account_id = $1"
        " ORDER BY sequence",
        account,
    )
    assert [tuple(row) for row in rows] == [
        ("payment", 1234, True), ("adjustment", -1000, True), ("adjustment", -234, True),
    ]  # fmt: skip
    assert await status_of(context.pool, charge_id) == "paid"
    # The money is gone, so it cannot be refunded as well.
    async with transaction(context.pool) as conn:
        refused = await begin_refunds(conn, [refund_of(account, charge_id)], now=utc_now(), transfers_cents_max=500_000)
    assert isinstance(refused[0], Refused)
    assert refused[0].code.name == "REFUND_EXCEEDS"
    # A comparison tells devolucoes with one id apart by their PIX.
    assert (await bank.control("take-back", end_to_end_id=other_pix, amount="5.00"))[0] == 200
    await context.pool.execute(
        "UPDATE simulated_devolucao SET id = (SELECT id FROM simulated_devolucao WHERE end_to_end_id = $1 LIMIT 1)"
        " WHERE end_to_end_id = $2",
        end_to_end_id, other_pix,
    )  # fmt: skip
    comparison = Comparison(since=utc_now() - timedelta(minutes=5), until=utc_now() + timedelta(seconds=2))
    await _BankStatement(context, BANK, comparison, OwnShare(HOME, frozenset(), ())).compare_returns()
    assert (comparison.booked, comparison.booked_cents) == (1, 500)
    assert [each for each in comparison.differences if each.account_id == account] == []
    await assert_books_are_clean(url)


async def test_a_return_that_the_bank_lists_twice_on_one_page_is_booked_once(
    context: Context, account: UUID, bank: RunningBank, url: str
) -> None:
    """Booked twice it would violate a key, at each reading of the page; counted twice, half of the money in suspense
    would be all of it."""
    charge_id = await registered_charge(context, account)
    (end_to_end_id,) = await pay(bank, charge_id=str(charge_id))
    (by_hand,) = await pay(bank, stray=True, amount="12.00")
    await reconcile_until_idle(context)
    back = PixReturn(id="MED1", return_id=None, amount_cents=600)
    listed = [
        ReceivedPix(
            end_to_end_id=each, txid=txid, amount_cents=cents, paid_at=utc_now(), returned=(back, back),
        )
        for each, txid, cents in ((end_to_end_id, charge_id.hex, 1234), (by_hand, None, 1200))
    ]  # fmt: skip
    for _ in range(2):
        await book_pix(context, BANK, [*listed, *listed])
    assert await balance(context, account) == 634
    assert (await suspense_of(context, by_hand))["state"] == "open"
    await assert_books_are_clean(url)


async def test_money_the_bank_took_back_does_not_make_a_charge_refunded(
    context: Context, account: UUID, bank: RunningBank, url: str
) -> None:
    charge_id = await registered_charge(context, account)
    (end_to_end_id,) = await pay(bank, charge_id=str(charge_id))
    await reconcile_until_idle(context)
    assert (await bank.control("take-back", end_to_end_id=end_to_end_id, amount="10.00"))[0] == 200
    await run_nightly_passes(context)
    asked = refund_of(account, charge_id)
    async with transaction(context.pool) as conn:
        (begun,) = await begin_refunds(conn, [asked], now=utc_now(), transfers_cents_max=500_000)
        await end_refunds(conn, [Ending(charge_id=charge_id, refund_id=asked.refund_id)], now=utc_now())
    assert begun is not None
    assert not isinstance(begun, Refused)
    assert (begun.amount, begun.refundable_remaining) == ("2.34", "0.00")
    assert await status_of(context.pool, charge_id) == "paid"
    await assert_books_are_clean(url)


async def test_a_refund_of_ours_in_the_banks_list_is_not_booked_as_an_adjustment(
    context: Context, account: UUID, bank: RunningBank, url: str
) -> None:
    first, second = [await registered_charge(context, account) for _ in range(2)]
    paid = [(await pay(bank, charge_id=str(each)))[0] for each in (first, second)]
    await reconcile_until_idle(context)
    async with transaction(context.pool) as conn:
        (begun,) = await begin_refunds(conn, [refund_of(account, first)], now=utc_now(), transfers_cents_max=500_000)
    assert begun is not None
    assert not isinstance(begun, Refused)
    # The bank lists a refund we ordered under the refund's id.
    await context.pool.execute(
        "INSERT INTO simulated_devolucao (world, end_to_end_id, id, amount_cents, return_id, asked_at, settles_at,"
        " fails) VALUES ('production', $1, $2, 1234, 'D1', now(), now(), false)",
        paid[0], UUID(begun.refund_id).hex,
    )  # fmt: skip
    await run_nightly_passes(context)
    assert await balance(context, account) == 1234
    assert (await bank.control("take-back", end_to_end_id=paid[0], amount="1.00"))[0] == 409
    assert (await bank.control("take-back", end_to_end_id=paid[1]))[0] == 200
    await context.pool.execute("DELETE FROM bank_reconciled WHERE pass <> 'new'")
    await run_nightly_passes(context)
    assert await balance(context, account) == 0
    await assert_books_are_clean(url)


async def test_a_refund_the_bank_carried_out_after_refusing_it_is_debited_from_the_wallet(
    context: Context, account: UUID, bank: RunningBank, url: str
) -> None:
    charge_id = await registered_charge(context, account)
    (paid,) = await pay(bank, charge_id=str(charge_id))
    await reconcile_until_idle(context)
    asked = refund_of(account, charge_id)
    async with transaction(context.pool) as conn:
        await begin_refunds(conn, [asked], now=utc_now(), transfers_cents_max=500_000)
    ending = Ending(charge_id=charge_id, refund_id=asked.refund_id, failure=FailureCode.BANK_REFUSED)
    async with transaction(context.pool) as conn:
        await end_refunds(conn, [ending], now=utc_now())
    assert await balance(context, account) == 1234
    await context.pool.execute(
        "INSERT INTO simulated_devolucao (world, end_to_end_id, id, amount_cents, return_id, asked_at, settles_at,"
        " fails) VALUES ('production', $1, $2, 1234, 'D1', now(), now(), false)",
        paid, asked.refund_id.hex,
    )  # fmt: skip
    for _ in range(2):
        await context.pool.execute("DELETE FROM bank_reconciled WHERE pass <> 'new'")
        await run_nightly_passes(context)
    assert await balance(context, account) == 0
    await assert_books_are_clean(url)


async def test_a_return_booked_while_staff_assign_the_money_does_not_deadlock_with_the_assignment(
    context: Context, account: UUID, bank: RunningBank, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charge it is assigned to has a payment that is returned too, so both transactions lock the same two rows."""
    await reconcile_until_idle(context)
    charge_id = await registered_charge(context, account)
    paid = [*await pay(bank, charge_id=str(charge_id)), *await pay(bank, stray=True, amount="5.00")]
    await reconcile_until_idle(context)
    suspense_id = (await suspense_of(context, paid[1]))["suspense_id"]
    for source in paid:
        assert (await bank.control("take-back", end_to_end_id=source))[0] == 200
    held, going_on = asyncio.Event(), asyncio.Event()
    find_charge = suspense._find_charge

    async def waits(*given: Any, **more: Any) -> Any:
        held.set()
        await going_on.wait()
        return await find_charge(*given, **more)

    async def assigned() -> None:
        async with transaction(context.pool) as conn:
            await assign_suspense(
                conn, suspense_id, charge_id, by="a@b.c", note=None, now=utc_now(), seal=context.seal, fees=NO_FEES
            )

    monkeypatch.setattr(suspense, "_find_charge", waits)
    assigning = asyncio.create_task(assigned())
    await held.wait()
    returning = asyncio.create_task(run_nightly_passes(context))
    await asyncio.wait([returning], timeout=1.0)
    going_on.set()
    assert await gather_outcomes(assigning, returning) == [None, None]
    await context.pool.execute("DELETE FROM bank_reconciled WHERE pass <> 'new'")
    await run_nightly_passes(context)
    assert await balance(context, account) == 0
    await assert_books_are_clean(url)


async def test_a_take_back_of_a_boleto_paid_by_an_unnamed_pix_is_debited_from_the_wallet_once(
    context: Context, account: UUID, url: str
) -> None:
    now, due = utc_now(), utc_now().astimezone(SAO_PAULO).date() + timedelta(days=5)

    async def paid_boleto(*, by_pix: bool) -> str:
        """The number of a boleto whose payment of 50.00 is booked."""
        async with transaction(context.pool) as conn:
            doc = await issue(
                conn, context.seal, account, test=False, due=due, now=to_millisecond(now), hybrid=True,
                amount_cents=5000,
            )  # fmt: skip
            number = str(doc.nosso_numero)
            await conn.execute(
                "INSERT INTO boleto (account_id, charge_id, bank, number, due_on, registered_at)"
                " SELECT account_id, charge_id, bank, $2, $3, created_at FROM charge WHERE charge_id = $1",
                UUID(doc.charge_id), number, due,
            )  # fmt: skip
        state = BoletoState(
            number=number, seu_numero="", status="paid", amount_cents=5000, due_on=due, line="", barcode="",
            registered_on=now.date(), paid_cents=5000, paid_on=now.astimezone(SAO_PAULO).date(), paid_by_pix=by_pix,
        )  # fmt: skip
        await book_boletos(context, BANK, [state])
        return number

    def listed(number: str, paid_at: datetime, *returned: tuple[str, int]) -> ReceivedPix:
        return ReceivedPix(
            end_to_end_id=f"E{secrets.token_hex(15)}", txid=f"BOLETO{number}", amount_cents=5000, paid_at=paid_at,
            boleto_number=number,
            returned=tuple(PixReturn(id=id, return_id=None, amount_cents=cents) for id, cents in returned),
        )  # fmt: skip

    number, before = await paid_boleto(by_pix=True), now - timedelta(minutes=1)
    assert await balance(context, account) == 5000
    paid = listed(number, before, ("MED1", 2000), ("MED2", 3000))
    await book_pix(context, "999", [paid])  # another bank may have a boleto of the same number
    assert await balance(context, account) == 5000
    await book_pix(context, BANK, [replace(paid, returned=paid.returned[:1])])
    # A PIX that arrived after the payment was booked belongs to another payment.
    await book_pix(context, BANK, [listed(number, utc_now() + timedelta(seconds=1), ("MED3", 10))])
    assert await balance(context, account) == 3000
    for told in (paid, paid):
        await book_pix(context, BANK, [told])
    assert await balance(context, account) == 0
    # So does a PIX of a boleto whose payment was made by its line.
    await book_pix(context, BANK, [listed(await paid_boleto(by_pix=False), before, ("MED4", 10))])
    assert await balance(context, account) == 5000
    # The id of a return is unique within its PIX only.
    await book_pix(context, BANK, [listed(await paid_boleto(by_pix=True), before, ("MED1", 20))])
    assert await balance(context, account) == 9980
    await assert_books_are_clean(url)


async def test_payments_are_reconciled_while_the_bank_hangs_on_registering_our_callback_address(
    context: Context, account: UUID, bank: RunningBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our address has changed, and the bank hangs when we register the new one."""
    charge_id = await registered_charge(context, account)
    await pay(bank, txid=charge_id.hex)
    context.settings = msgspec.structs.replace(context.settings, bank_callback_token="another")
    context.banks.production[BANK] = bank.adapter(write_s=60.0)
    monkeypatch.setattr(callback_keys, "CALL_S", 0.3)
    bank.wire.fault = "timeout_before"
    await reconcile_until_idle(context)
    assert await status_of(context.pool, charge_id) == "paid"


# Boletos


async def test_a_worker_without_the_lease_does_not_read_the_list_of_paid_boletos(context: Context) -> None:
    assert {each.name for each in PIX_PASSES} == {"new", "late", "nightly", "returned"}
    context.now = lambda: datetime.now(UTC)
    async with session(context.pool) as conn:
        assert await take_lease(conn, name=f"reconciler:boleto:{BANK}", holder="another", lease_s=60)
    assert await reconcile_boletos(context, BANK) == 0
    assert await context.pool.fetchval("SELECT count(*) FROM bank_reconciled WHERE method = 'boleto'") == 0
    await context.pool.execute("DELETE FROM lease")


def refund_of(account: UUID, charge_id: UUID) -> NewRefund:
    return NewRefund(
        owner=Owner(account, Mode.PRODUCTION), key=new_id().hex, fingerprint=bytes(32), refund_id=new_id(),
        charge_id=charge_id, amount_cents=None, payment_id=None, reason=None, description=None, external_id=None,
        destination=None, scenario=None, actor="test", request_id="test",
    )  # fmt: skip


async def gather_outcomes(*asked: Any) -> list[Any]:
    return list(await asyncio.gather(*asked, return_exceptions=True))


# Long lists: these tests come last, because each later pass would list their payments of the day again


async def test_after_an_outage_every_pix_is_booked_once_though_workers_die(
    context: Context, account: UUID, bank: RunningBank, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.wire.pages_max = 20  # the bank refuses wider windows
    monkeypatch.setattr(passes, "PAGES_MAX", 10)
    await reconcile_until_idle(context)
    charge_ids = [await registered_charge(context, account, amount_cents=100) for _ in range(5)]
    end = utc_now()
    spread = [end - timedelta(hours=5) * (n / COUNT) ** 2 for n in range(COUNT)]  # ever denser towards the end
    await store_payments(context, [charge_ids[n % 5] for n in range(COUNT)], spread)
    await context.pool.execute(
        "UPDATE bank_reconciled SET until = $1, goal = $1, window_until = NULL, after = NULL WHERE pass = 'new'",
        end - timedelta(hours=6),
    )
    began = time.monotonic()
    context.now = lambda: utc_now() + timedelta(seconds=2)
    pages, died = 0, 0
    store = passes.set_progress

    async def dies(*args: Any, **more: Any) -> Any:
        """At every seventh page the worker dies after the page was booked and before its progress is stored."""
        nonlocal pages, died
        pages += 1
        if pages % 7 == 0:
            died += 1
            raise ConnectionError
        return await store(*args, **more)

    monkeypatch.setattr(passes, "set_progress", dies)
    for _ in range(20_000):
        try:
            if not await reconcile(context, BANK):
                break
        except ConnectionError:
            pass
    took_s = time.monotonic() - began
    print(f"{COUNT} PIX in {took_s:.1f} s, {pages} times progress was stored, {died} deaths")
    assert died > 2
    rows = await context.pool.fetchrow(
        "SELECT count(*) AS rows, count(DISTINCT source) AS sources FROM payment WHERE charge_id = ANY($1)", charge_ids
    )
    assert rows is not None
    assert (rows["rows"], rows["sources"]) == (COUNT, COUNT)
    assert await balance(context, account) == 100 * COUNT
    await assert_books_are_clean(url)


async def test_another_worker_resumes_at_the_page_where_a_killed_worker_stopped(
    context: Context, account: UUID, bank: RunningBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reconcile_until_idle(context)
    charge_id = await registered_charge(context, account, amount_cents=100)
    await store_payments(context, [charge_id] * 450, [utc_now()] * 450)
    context.now = lambda: utc_now() + timedelta(seconds=2)
    fetched: list[str | None] = []
    fetch = context.banks.production[BANK].pix.received_page

    async def counted(since: datetime, until: datetime, after: str | None = None, **more: Any) -> Any:
        fetched.append(after)
        if after == "2" and fetched.count("2") == 1:
            raise ConnectionError  # dies while it asks for the third page
        return await fetch(since, until, after, **more)

    monkeypatch.setattr(context.banks.production[BANK].pix, "received_page", counted)
    with pytest.raises(ConnectionError):
        await reconcile(context, BANK)
    context.worker = "another"
    assert await reconcile(context, BANK) == 0  # the dead worker still holds the lease
    await context.pool.execute("UPDATE lease SET until = '-infinity'")
    fetched.append("another worker")
    await reconcile(context, BANK)
    assert fetched[fetched.index("another worker") + 1] == "2"
    assert await context.pool.fetchval("SELECT count(*) FROM payment WHERE charge_id = $1", charge_id) == 450


async def test_pages_of_received_pix_are_fetched_concurrently_and_booked_in_order(
    context: Context, account: UUID, bank: RunningBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reconcile_until_idle(context)
    charge_id = await registered_charge(context, account, amount_cents=100)
    await store_payments(context, [charge_id] * 750, [utc_now()] * 750)
    context.now = lambda: utc_now() + timedelta(seconds=2)
    fetch = context.banks.production[BANK].pix.received_page
    asked: dict[str, asyncio.Event] = {}
    at_once = 0

    async def held(since: datetime, until: datetime, after: str | None = None, **more: Any) -> Any:
        nonlocal at_once
        if after is not None:
            asked[after] = asyncio.Event()
            at_once = max(at_once, sum(not each.is_set() for each in asked.values()))
            await asked[after].wait()
        return await fetch(since, until, after, **more)

    stored: list[str | None] = []
    store = passes.set_progress

    async def storing(*args: Any, **more: Any) -> Any:
        if more["pass_name"] == "new":
            stored.append(more["after"])
        return await store(*args, **more)

    monkeypatch.setattr(passes, "set_progress", storing)
    monkeypatch.setattr(context.banks.production[BANK].pix, "received_page", held)
    working = asyncio.create_task(reconcile(context, BANK))
    async with asyncio.timeout(30):
        while len(asked) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for late in ("4", "3", "2"):
            asked[late].set()
        while not stored:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert stored == ["1"], "later pages wait for the page that has not arrived yet"
        while not working.done():
            for each in asked.values():
                each.set()
            await asyncio.sleep(0.01)
    assert await working >= 750
    assert at_once == context.settings.pace.bank_list_pages == 4
    assert stored == [*(str(page) for page in range(1, len(stored))), None]
    assert await context.pool.fetchval("SELECT count(*) FROM payment WHERE charge_id = $1", charge_id) == 750
