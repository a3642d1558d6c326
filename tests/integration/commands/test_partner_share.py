"""A partner gets his share of the payments he brought, once and to the cent, and returns it in proportion when a
payment is refunded or reversed."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from commands.charges.pay import confirm_payments
from commands.merchants.integrators import set_integrator
from commands.money.partner_shares import post_shares
from commands.money.reversals import BankReturn, book_reversals, book_sent_refunds
from commands.money.withdraw import NewWithdrawal, create_withdrawal
from commands.sandbox_clock import advance_clock
from domain.errors import Code, Refused
from domain.instants import to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode
from readmodels.reports.integrators import list_integrators
from readmodels.verify import verify
from readmodels.verify_scope import Difference
from runtime.ids import new_id
from runtime.postgres import Pool, session, transaction
from tests.support.banking import make_account
from tests.support.boleto_merchant import issue, issue_boleto
from tests.support.merchant import Books, assert_books_are_clean, new_merchant, until_answer
from tests.support.partners import (
    book_further_payment,
    confirmation,
    create_partner,
    fold_totals,
    ledger_of,
    new_charge,
    paid,
    post_partner_shares,
    refunds,
)
from tests.support.system import System
from tests.support.wallet import SEAL, balance_of

MODES = pytest.mark.parametrize("test", [True, False], ids=["sandbox", "production"])


@pytest_asyncio.fixture(loop_scope="session")
async def merchant(pool: Pool) -> UUID:
    return await make_account(pool)


@pytest.fixture(scope="module")
async def known_differences(servers: Any, pool: Pool) -> AsyncIterator[list[Difference]]:
    """Differences that other tests left, found after all totals are folded; the tests that use this must add none."""
    await fold_totals(pool)
    before = await verify(servers.database_url)
    yield before
    assert await verify(servers.database_url) == before


@MODES
async def test_the_share_is_rounded_down_for_each_payment_and_the_merchant_does_not_pay_it(
    pool: Pool, merchant: UUID, test: bool, known_differences: list[Difference]
) -> None:
    partner = await create_partner(pool, 250)
    assert partner.account_id is not None
    for cents in (1_234, 39, 40, 100_000):
        await paid(pool, merchant, cents, partner.integrador_code, test=test)
    await paid(pool, merchant, 1_000, None, test=test)
    await post_partner_shares(pool)
    # 2.5 % of 0.39 is less than a cent.
    assert await ledger_of(pool, partner.account_id, test=test) == [
        ("partner_share", cents) for cents in (30, 1, 2_500)
    ]
    assert await ledger_of(pool, merchant, test=test) == [
        ("payment", cents) for cents in (1_234, 39, 40, 100_000, 1_000)
    ]
    assert await ledger_of(pool, partner.account_id, test=not test) == []


async def test_every_payment_of_a_charge_earns_a_share_including_anomalous_ones(pool: Pool, merchant: UUID) -> None:
    partner = await create_partner(pool, 1_000)
    assert partner.account_id is not None
    charge_id, _ = await paid(pool, merchant, 500, partner.integrador_code)
    await book_further_payment(pool, charge_id, 70, partner.integrador_code)
    await post_partner_shares(pool)
    assert await ledger_of(pool, partner.account_id) == [("partner_share", 50), ("partner_share", 7)]


async def test_reversals_by_the_bank_take_back_their_part_of_the_share_as_refunds_do(
    pool: Pool, merchant: UUID, known_differences: list[Difference]
) -> None:
    partner = await create_partner(pool, 3_333)
    assert partner.account_id is not None
    charge_id, payment_id = await paid(pool, merchant, 1_000, partner.integrador_code)
    source = await pool.fetchval("SELECT source FROM payment WHERE payment_id = $1", payment_id)
    left = 1_000
    for number, (taken, refunded) in enumerate([(1, 1), (107, 349), (1, 541)]):
        returned = BankReturn(
            position=0, charge_id=charge_id, boleto_number=None, end_to_end_id=source, refund_id=None,
            bank_id=f"MED{number}", return_id=None, amount_cents=taken,
        )  # fmt: skip
        for expected in (1, 0):  # The bank reports the reversal twice; it is booked once.
            async with transaction(pool) as conn:
                assert await book_reversals(conn, [returned], bank="001", now=datetime.now(UTC)) == expected
        await refunds(pool, merchant, [(charge_id, payment_id, refunded)])
        left -= taken + refunded
        await post_partner_shares(pool)
        assert await _share_of(pool, partner.account_id, payment_id) == left * 3_333 // 10_000
    assert left == 0
    assert await balance_of(pool, merchant) == 0
    await fold_totals(pool)


@MODES
async def test_partial_refunds_take_the_share_back_to_the_last_cent(pool: Pool, merchant: UUID, test: bool) -> None:
    chance = random.Random(test)
    partner = await create_partner(pool, 3_333)
    assert partner.account_id is not None
    given = 0
    for _ in range(8):
        cents = chance.randrange(3, 2_000)
        charge_id, payment_id = await paid(pool, merchant, cents, partner.integrador_code, test=test)
        await post_partner_shares(pool)
        share = cents * 3_333 // 10_000
        given += share
        left = cents
        while left:
            # Sometimes two refunds of one payment succeed in the same batch.
            parts = [chance.randrange(1, left + 1)]
            if parts[0] < left and chance.random() < 0.5:
                parts.append(chance.randrange(1, left - parts[0] + 1))
            await refunds(pool, merchant, [(charge_id, payment_id, part) for part in parts], test=test)
            left -= sum(parts)
            await post_partner_shares(pool)
            mine = await _share_of(pool, partner.account_id, payment_id)
            assert mine == left * 3_333 // 10_000
        assert await _share_of(pool, partner.account_id, payment_id) == 0
    lines = await ledger_of(pool, partner.account_id, test=test)
    assert sum(cents for _, cents in lines if cents > 0) == given
    assert sum(cents for _, cents in lines) == 0
    assert {kind for kind, _ in lines} == {"partner_share"}


async def test_a_refund_that_fails_takes_nothing_back(pool: Pool, merchant: UUID) -> None:
    partner = await create_partner(pool, 1_000)
    assert partner.account_id is not None
    charge_id, payment_id = await paid(pool, merchant, 1_000, partner.integrador_code)
    await refunds(pool, merchant, [(charge_id, payment_id, 400)], failing=True)
    await post_partner_shares(pool)
    assert await ledger_of(pool, partner.account_id) == [("partner_share", 100)]


async def test_money_sent_more_than_once_for_a_payment_is_debited_and_takes_its_share_back_once(
    pool: Pool, known_differences: list[Difference]
) -> None:
    merchant, partner = await make_account(pool), await create_partner(pool, 1_000)
    assert partner.account_id is not None
    charge_id, payment_id = await paid(pool, merchant, 1_000, partner.integrador_code)
    for _ in range(2):
        await refunds(pool, merchant, [(charge_id, payment_id, 700)], failing=True)
    failed = await pool.fetch("SELECT refund_id FROM refund WHERE charge_id = $1", charge_id)
    await refunds(pool, merchant, [(charge_id, payment_id, 1_000)])
    # The bank sent the refunds that had failed here after all.
    sent = [
        BankReturn(
            position=position, charge_id=None, boleto_number=None, end_to_end_id=f"E{position}",
            refund_id=row["refund_id"], bank_id=row["refund_id"].hex, return_id=None, amount_cents=700,
        )
        for position, row in enumerate(failed)
    ]  # fmt: skip
    for listed, expected in ((sent[:1], 1), (sent, 1), (sent, 0)):
        async with transaction(pool) as conn:
            assert await book_sent_refunds(conn, listed, now=datetime.now(UTC)) == expected
    assert await balance_of(pool, merchant) == 1_000 - 1_000 - 2 * 700
    await post_partner_shares(pool)
    assert await ledger_of(pool, partner.account_id) == [("partner_share", 100), ("partner_share", -100)]
    await fold_totals(pool)


async def test_taking_back_a_share_that_was_withdrawn_leaves_a_negative_balance(pool: Pool, merchant: UUID) -> None:
    partner = await create_partner(pool, 1_000)
    assert partner.account_id is not None
    charge_id, payment_id = await paid(pool, merchant, 1_000, partner.integrador_code)
    await post_partner_shares(pool)
    await _withdraw(pool, partner.account_id, 100)
    await refunds(pool, merchant, [(charge_id, payment_id, 1_000)])
    await post_partner_shares(pool)
    assert await balance_of(pool, partner.account_id) == -100
    await paid(pool, merchant, 3_000, partner.integrador_code)
    await post_partner_shares(pool)
    assert await balance_of(pool, partner.account_id) == 200


async def test_a_charge_pays_the_share_that_was_in_force_when_it_was_issued(pool: Pool, merchant: UUID) -> None:
    partner = await create_partner(pool, 100)
    assert partner.account_id is not None
    before = await new_charge(pool, merchant, 10_000)
    await asyncio.sleep(0.005)
    async with transaction(pool) as conn:
        await set_integrator(conn, partner.integrador_code, now=datetime.now(UTC), share_bps=500)
    await asyncio.sleep(0.005)
    after = await new_charge(pool, merchant, 10_000)
    for charge_id in (after, before):
        await book_further_payment(pool, charge_id, 10_000, partner.integrador_code)
    await post_partner_shares(pool)
    assert await ledger_of(pool, partner.account_id) == [("partner_share", 500), ("partner_share", 100)]


async def test_an_inactive_partner_is_still_paid_for_charges_he_brought(pool: Pool, merchant: UUID) -> None:
    partner = await create_partner(pool, 100)
    assert partner.account_id is not None
    charge_id = await new_charge(pool, merchant, 10_000)
    async with transaction(pool) as conn:
        changed = await set_integrator(conn, partner.integrador_code, now=datetime.now(UTC), active=False)
    assert (changed.active, changed.share_bps, changed.account_id) == (False, 100, partner.account_id)
    await book_further_payment(pool, charge_id, 10_000, partner.integrador_code)
    await post_partner_shares(pool)
    assert await ledger_of(pool, partner.account_id) == [("partner_share", 100)]


async def test_a_partner_without_account_or_share_earns_nothing(pool: Pool, merchant: UUID) -> None:
    without_share = await create_partner(pool, 0)
    without_account = await create_partner(pool, 500)
    await pool.execute(
        "UPDATE integrator SET account_id = NULL WHERE integrador_code = $1", without_account.integrador_code
    )
    for partner in (without_share, without_account):
        await paid(pool, merchant, 10_000, partner.integrador_code)
    codes = [without_share.integrador_code, without_account.integrador_code]
    assert await pool.fetchval("SELECT count(*) FROM partner_share WHERE integrador_code = ANY($1)", codes) == 0


async def test_a_crash_while_posting_neither_loses_nor_doubles_a_share(pool: Pool, merchant: UUID) -> None:
    partner = await create_partner(pool, 1_000)
    assert partner.account_id is not None
    await post_partner_shares(pool)
    for _ in range(5):
        await paid(pool, merchant, 100, partner.integrador_code)
    async with pool.acquire() as conn:
        lost = conn.transaction()
        await lost.start()
        assert await post_shares(conn, Mode.PRODUCTION, held=timedelta(0), now=datetime.now(UTC)) == 5
        await lost.rollback()
    assert await ledger_of(pool, partner.account_id) == []
    assert await post_partner_shares(pool) == 5
    assert await post_partner_shares(pool) == 0
    assert await ledger_of(pool, partner.account_id) == [("partner_share", 10)] * 5


async def test_concurrent_workers_post_each_share_once_and_in_order(pool: Pool, merchant: UUID) -> None:
    partners = [await create_partner(pool, 1_000) for _ in range(3)]
    await post_partner_shares(pool)
    for number in range(30):
        await paid(pool, merchant, 100 + number, partners[number % 3].integrador_code)

    async def post() -> int:
        async with transaction(pool) as conn:
            return await post_shares(conn, Mode.PRODUCTION, held=timedelta(0), now=datetime.now(UTC))

    assert sum(await asyncio.gather(*(post() for _ in range(6)))) == 30
    for position, partner in enumerate(partners):
        assert partner.account_id is not None
        assert await ledger_of(pool, partner.account_id) == [
            ("partner_share", (100 + number) // 10) for number in range(position, 30, 3)
        ]
        numbers = await pool.fetch(
            "SELECT sequence, balance_after_cents FROM read_ledger WHERE account_id = $1 ORDER BY 1", partner.account_id
        )
        assert [row[0] for row in numbers] == list(range(1, 11))
        assert numbers[-1][1] == sum((100 + number) // 10 for number in range(position, 30, 3))


async def test_two_concurrent_workers_post_to_different_partners_and_each_share_once(
    pool: Pool, merchant: UUID, monkeypatch: Any
) -> None:
    partners = [await create_partner(pool, 1_000) for _ in range(2)]
    await post_partner_shares(pool)
    for number in range(10):
        await paid(pool, merchant, 100, partners[number % 2].integrador_code)
    monkeypatch.setattr("commands.money.partner_shares._PARTNERS_MAX", 1)
    async with pool.acquire() as one, pool.acquire() as other:
        both = [one.transaction(), other.transaction()]
        for each in both:
            await each.start()
        for conn, partner in zip(
            (one, other), partners, strict=True
        ):  # Neither waits for the other's uncommitted rows.
            async with asyncio.timeout(10):
                assert await post_shares(conn, Mode.PRODUCTION, held=timedelta(0), now=datetime.now(UTC)) == 5
            posted = await conn.fetchval("SELECT count(*) FROM read_ledger WHERE account_id = $1", partner.account_id)
            assert posted == 5, "the partner with the oldest share comes first"
            # The oldest due shares are now the first partner's alone: the other is found among the newest.
            monkeypatch.setattr("commands.money.partner_shares._WINDOW", 1)
        for each in both:
            await each.commit()
    assert await post_partner_shares(pool) == 0
    for partner in partners:
        assert partner.account_id is not None
        assert await ledger_of(pool, partner.account_id) == [("partner_share", 10)] * 5


async def test_shares_are_posted_once_after_a_worker_is_killed_between_ledger_and_mark(
    pool: Pool, merchant: UUID, monkeypatch: Any
) -> None:
    partner = await create_partner(pool, 1_000)
    assert partner.account_id is not None
    await post_partner_shares(pool)
    for _ in range(5):
        await paid(pool, merchant, 100, partner.integrador_code)

    async def killed(conn: Any, **_: Any) -> None:
        await conn.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with monkeypatch.context() as broken:
        broken.setattr("commands.money.partner_shares.mark_posted", killed)
        with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresError)):
            await post_partner_shares(pool)
    assert await ledger_of(pool, partner.account_id) == []
    assert await post_partner_shares(pool) == 5
    assert await post_partner_shares(pool) == 0
    assert await ledger_of(pool, partner.account_id) == [("partner_share", 10)] * 5


async def test_no_share_is_taken_back_before_it_was_given(pool: Pool, merchant: UUID, monkeypatch: Any) -> None:
    partner = await create_partner(pool, 1_000)
    assert partner.account_id is not None
    await post_partner_shares(pool)
    charge_id, payment_id = await paid(pool, merchant, 1_000, partner.integrador_code)
    await refunds(pool, merchant, [(charge_id, payment_id, 300)])
    await paid(pool, merchant, 500, partner.integrador_code)
    monkeypatch.setattr("commands.money.partner_shares.SHARES_MAX", 1)
    async with pool.acquire() as conn:
        slow = conn.transaction()
        await slow.start()
        assert await post_shares(conn, Mode.PRODUCTION, held=timedelta(0), now=datetime.now(UTC)) == 1
        assert await post_partner_shares(pool) == 0, "no share is posted to a partner to whom another worker is posting"
        await slow.rollback()
    await post_partner_shares(pool)
    assert await ledger_of(pool, partner.account_id) == [("partner_share", cents) for cents in (100, -30, 50)]


async def test_a_payment_without_partner_runs_no_statement_about_partners(pool: Pool, merchant: UUID) -> None:
    partner = await create_partner(pool, 100)
    said: dict[str | None, list[str]] = {}
    async with session(pool) as conn:
        for code in (
            partner.integrador_code,
            None,
            partner.integrador_code,
        ):  # On first use a connection looks up types.
            charge_id = await new_charge(pool, merchant, 1_000)
            said[code] = []
            heard = said[code]
            with conn.query_logger(lambda record, heard=heard: heard.append(record.query)):
                async with conn.transaction():
                    await confirm_payments(
                        conn, [confirmation(charge_id, 1_000, code)], now=datetime.now(UTC), seal=SEAL, fees=NO_FEES
                    )
    stamped, plain = said.values()
    assert not [query for query in plain if "partner" in query or "integrator" in query]
    assert len(stamped) == len(plain) + 1


async def test_a_merchant_may_be_his_own_partner(
    pool: Pool, merchant: UUID, known_differences: list[Difference]
) -> None:
    partner = await create_partner(pool, 1_000, account_id=merchant)
    charge_id, payment_id = await paid(pool, merchant, 1_000, partner.integrador_code)
    await post_partner_shares(pool)
    await refunds(pool, merchant, [(charge_id, payment_id, 1_000)])
    await post_partner_shares(pool)
    assert await ledger_of(pool, merchant) == [
        ("payment", 1_000), ("partner_share", 100), ("refund", -1_000), ("partner_share", -100),
    ]  # fmt: skip


async def test_verify_reports_a_wrong_an_unposted_or_a_missing_share(
    pool: Pool, table_owner: Pool, servers: Any, merchant: UUID
) -> None:
    partner = await create_partner(pool, 1_000)
    before = await verify(servers.database_url)
    charge_id, payment_id = await paid(pool, merchant, 1_000, partner.integrador_code)
    await refunds(pool, merchant, [(charge_id, payment_id, 10)])
    await post_partner_shares(pool)
    assert await verify(servers.database_url) == before
    kept = await pool.fetch("SELECT * FROM partner_share WHERE payment_id = $1", payment_id)
    for corruption in (
        "UPDATE partner_share SET share_cents = share_cents - 1 WHERE payment_id = $1 AND refund_id IS NULL",
        "UPDATE partner_share SET posted_at = NULL WHERE payment_id = $1 AND refund_id IS NULL",
        "DELETE FROM partner_share WHERE payment_id = $1",
    ):
        await table_owner.execute(corruption, payment_id)
        assert {each.table for each in await verify(servers.database_url) if each not in before} == {"books"}
        async with transaction(table_owner) as conn:
            await conn.execute("DELETE FROM partner_share WHERE payment_id = $1", payment_id)
            await conn.executemany(
                "INSERT INTO partner_share (share_id, number, account_id, test, payment_id, refund_id, integrador_code,"
                " partner_id, amount_cents, share_bps, share_cents, earned_at, posted_at) OVERRIDING SYSTEM VALUE"
                " SELECT ($1::partner_share).share_id, ($1::partner_share).number, ($1::partner_share).account_id,"
                " ($1::partner_share).test, ($1::partner_share).payment_id, ($1::partner_share).refund_id,"
                " ($1::partner_share).integrador_code, ($1::partner_share).partner_id,"
                " ($1::partner_share).amount_cents, ($1::partner_share).share_bps, ($1::partner_share).share_cents,"
                " ($1::partner_share).earned_at, ($1::partner_share).posted_at",
                [(tuple(row),) for row in kept],
            )
    assert await verify(servers.database_url) == before


async def test_changing_an_unknown_partner_or_to_an_impossible_share_is_refused(pool: Pool) -> None:
    for given, code in (
        ({"active": False}, Code.INTEGRADOR_CODE_INVALID),
        ({"share_bps": 10_001}, Code.VALIDATION_ERROR),
    ):
        with pytest.raises(Refused) as refused:
            async with transaction(pool) as conn:
                await set_integrator(conn, "INTG-000000", now=datetime.now(UTC), **given)
        assert refused.value.code is code


async def test_partners_are_listed_in_pages(pool: Pool) -> None:
    made = {(await create_partner(pool, share)).integrador_code: share for share in (0, 1, 10_000)}
    found: list[Any] = []
    async with session(pool) as conn:
        while page := await list_integrators(conn, after=found[-1].integrador_code if found else "", limit=2):
            found += page
    assert [each.integrador_code for each in found] == sorted({each.integrador_code for each in found})
    assert {each.integrador_code: each.share_bps for each in found if each.integrador_code in made} == made


async def _withdraw(pool: Pool, account_id: UUID, cents: int) -> None:
    new = NewWithdrawal(
        account_id=account_id, key=str(uuid4()), fingerprint=bytes(32), withdrawal_id=new_id(), amount_cents=cents,
        description=None, external_id=None, actor="test", request_id="test",
    )  # fmt: skip
    async with transaction(pool) as conn:
        assert (
            await create_withdrawal(
                conn, new, now=to_millisecond(datetime.now(UTC)), bank="001", grace_s=3600, fees=NO_FEES
            )
            is not None
        )


async def _share_of(pool: Pool, partner_id: UUID, payment_id: UUID) -> int:
    found = await pool.fetchval(
        "SELECT coalesce(sum(amount_cents), 0) FROM read_ledger"
        " WHERE account_id = $1 AND payment_id = $2 AND type = 'partner_share'",
        partner_id, payment_id,
    )  # fmt: skip
    return int(found)


# End to end


async def test_a_partner_set_up_on_the_command_line_earns_shares_and_returns_them(system: System, books: Books) -> None:
    async with new_merchant(system) as merchant, new_merchant(system) as partner:
        account_id = partner.sandbox.account_id
        made = system.json("integrator", "create", "Parceira", "--share", "2.5", "--account-id", account_id)
        code = made.pop("integrador_code")
        assert made == {"name": "Parceira", "account_id": account_id, "active": True, "share": "2.50"}
        charge = await issue_boleto(merchant.sandbox, "100.00", integrador_code=code)
        assert (await merchant.sandbox.pay(charge["charge_id"])).status == 200
        ledger = await until_answer(lambda: partner.sandbox.ledger())
        payment = (await merchant.sandbox.charge(charge["charge_id"]))["payment"]
        assert [(each["type"], each["direction"], each["amount"]) for each in ledger] == [
            ("partner_share", "credit", "2.50")
        ]
        assert (ledger[0]["charge_id"], ledger[0]["payment_id"]) == (None, payment["payment_id"])
        assert ledger[0]["external_id"] is None
        assert await partner.sandbox.balance() == "2.50"
        assert await partner.production.ledger() == []
        assert await merchant.sandbox.balance() == "100.00"
        # A refund takes back its part of the share, also when the boleto is refunded by a transfer.
        back = {"amount": "40.00", "destination": {"pix_key": "52998224725", "document": "52998224725"}}
        path = f"/v1/charges/{charge['charge_id']}/refunds"
        asked = await merchant.sandbox.ask("POST", path, json=back, key=str(uuid4()))
        assert asked.status == 201, asked.raw

        async def share_taken_back() -> bool:
            return len(await partner.sandbox.ledger()) == 2

        await until_answer(share_taken_back)
        assert await partner.sandbox.balance() == "1.50"
        (_, line) = await partner.sandbox.ledger(type="partner_share")
        assert (line["direction"], line["amount"], line["refund_id"]) == ("debit", "1.00", asked.body["refund_id"])

        changed = system.json("integrator", "set", code, "--inactive", "--share", "10")
        assert (changed["active"], changed["share"]) == (False, "10.00")
        assert (await issue(merchant.sandbox, integrador_code=code)).code == "INTEGRADOR_CODE_INVALID"
        listed = system.json("integrator", "list")
        assert changed in listed
        assert system.quita("integrator", "set", "INTG-000000", "--active").returncode == 1
        assert system.quita("integrator", "create", "X", "--share", "1.234").returncode == 2
    assert_books_are_clean(system)


async def _post_due_shares(pool: Pool, partner: UUID, *, held: timedelta, now: datetime) -> list[int]:
    """Posts all shares that are due; returns the amounts in the partner's ledger."""
    for mode in Mode:
        async with transaction(pool) as conn:
            while await post_shares(conn, mode, held=held, now=now):
                pass
    return [cents for _, cents in await ledger_of(pool, partner)]


async def test_a_share_is_held_and_a_refund_meanwhile_takes_back_its_part(
    pool: Pool, merchant: UUID, known_differences: list[Difference]
) -> None:
    """Holding a share prevents a fraud: a merchant who is also the partner pays his own boleto, withdraws the share and
    refunds the payment to himself."""
    partner = await create_partner(pool, 1_000)
    assert partner.account_id is not None
    now = to_millisecond(datetime.now(UTC))
    charge_id, payment_id = await paid(pool, merchant, 10_000, partner.integrador_code, now=now)
    held = timedelta(milliseconds=1)
    await paid(pool, merchant, 5_000, partner.integrador_code, now=now + held)
    assert await _post_due_shares(pool, partner.account_id, held=held, now=now) == []
    asked = NewWithdrawal(
        account_id=partner.account_id, key=str(uuid4()), fingerprint=bytes(32), withdrawal_id=new_id(),
        amount_cents=1_000, description=None, external_id=None, actor="test", request_id="test",
    )  # fmt: skip
    with pytest.raises(Refused) as refused:
        async with transaction(pool) as conn:
            await create_withdrawal(conn, asked, now=now, bank="001", grace_s=3600, fees=NO_FEES)
    assert refused.value.code is Code.INSUFFICIENT_BALANCE
    # The time that a taken-back part is held also counts from the payment, so it is never posted later than its share.
    await refunds(pool, merchant, [(charge_id, payment_id, 4_000)], now=now + timedelta(seconds=1))
    assert await _post_due_shares(pool, partner.account_id, held=held, now=now) == []
    assert await _post_due_shares(pool, partner.account_id, held=held, now=now + held) == [1_000, -400], (
        "the share of the later payment is still held"
    )
    assert await _post_due_shares(pool, partner.account_id, held=held, now=now + 2 * held) == [1_000, -400, 500]
    assert await balance_of(pool, partner.account_id) == 1_100


async def test_a_sandbox_share_is_dated_by_the_partners_sandbox_clock(pool: Pool, merchant: UUID) -> None:
    partner, now = await create_partner(pool, 1_000), to_millisecond(datetime.now(UTC))
    assert partner.account_id is not None
    async with transaction(pool) as conn:
        await advance_clock(conn, partner.account_id, 30 * 86_400, now=now)
    for test in (True, False):
        await paid(pool, merchant, 10_000, partner.integrador_code, test=test, now=now)
        async with transaction(pool) as conn:
            await post_shares(conn, Mode.of(test), held=timedelta(0), now=now)
    dated = await pool.fetch(
        "SELECT test, recorded_at FROM journal WHERE account_id = $1 ORDER BY test", partner.account_id
    )
    assert [tuple(row) for row in dated] == [(False, now), (True, now + timedelta(days=30))]


async def test_sandbox_shares_are_not_held(pool: Pool, merchant: UUID) -> None:
    partner = await create_partner(pool, 1_000)
    assert partner.account_id is not None
    for test in (True, False):
        await paid(pool, merchant, 10_000, partner.integrador_code, test=test)
    await _post_due_shares(pool, partner.account_id, held=timedelta(days=180), now=datetime.now(UTC))
    assert await ledger_of(pool, partner.account_id, test=True) == [("partner_share", 1_000)]
    assert await ledger_of(pool, partner.account_id) == [], (
        "a share of production is held though one of the sandbox is due"
    )
