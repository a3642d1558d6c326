"""A fee is booked together with its payment or withdrawal: once, to the cent, by the terms in force at that moment."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from commands.charges.change import change_charges
from commands.charges.pay import BoletoPaymentFacts, Confirmation, confirm_payments, simulated_payment
from commands.charges.sandbox import paying
from commands.money.fees import SET, fee_facts, own_terms, set_fees
from commands.money.reversals import BankReturn, book_reversals
from commands.money.withdraw import (
    NewWithdrawal,
    WithdrawalEnd,
    cancel_withdrawal,
    create_withdrawal,
    daily_withdrawal,
    end_withdrawal,
    set_daily,
    start_sending,
)
from commands.people.audit import Origin
from commands.people.people import add_person
from domain.errors import Code, Refused
from domain.instants import SAO_PAULO, to_millisecond
from domain.merchants.fees import FEE_CENTS_MAX, NO_FEES, PIX_BPS_MAX, FeeTerms
from domain.mode import Mode, Owner
from domain.withdrawal import Withdrawal, WithdrawalFailure
from readmodels.charges.charge import charges_by_id
from readmodels.verify import verify
from readmodels.verify_scope import Difference, VerifyScope
from runtime.ids import new_id
from runtime.postgres import Pool, session, transaction
from tests.support.banking import make_account
from tests.support.partners import (
    book_further_payment,
    confirmation,
    create_partner,
    fold_totals,
    ledger_of,
    new_charge,
    post_partner_shares,
    refunds,
)
from tests.support.wallet import SEAL, balance_of

TERMS = FeeTerms(pix_bps=99, pix_cents=10, pix_cents_min=25, pix_cents_max=500, boleto_cents=199, withdrawal_cents=350)
ORIGIN = Origin("ana@quita.example", "here", "req_fees")
MODES = pytest.mark.parametrize("test", [True, False], ids=["sandbox", "production"])


@pytest_asyncio.fixture(loop_scope="session")
async def merchant(pool: Pool) -> UUID:
    account_id = await make_account(pool)
    await agree(pool, account_id, TERMS)
    return account_id


@pytest.fixture(scope="module")
async def known_differences(servers: Any, pool: Pool) -> AsyncIterator[list[Difference]]:
    """Differences that other tests left, found after all totals are folded; the tests that use this must add none."""
    await fold_totals(pool)
    before = await verify(servers.database_url)
    yield before
    await fold_totals(pool)
    assert await verify(servers.database_url) == before


async def agree(pool: Pool, account_id: UUID, terms: FeeTerms | None, reason: str = "contrato 12") -> None:
    async with transaction(pool) as conn:
        await set_fees(conn, account_id, terms, reason, ORIGIN, now=datetime.now(UTC), seal=SEAL)


async def confirm_payment_of(
    pool: Pool, charge_id: UUID, cents: int, *, boleto: bool = False, fees: FeeTerms = NO_FEES
) -> Confirmation:
    """Books money for the charge, as a worker does."""
    now = datetime.now(UTC)
    each = confirmation(charge_id, cents, None)
    if boleto:
        of = BoletoPaymentFacts(source=secrets.token_hex(15), method="boleto", nosso_numero="0" * 20, txid=None)
        each = msgspec.structs.replace(each, end_to_end_id=None, boleto=of)
    async with transaction(pool) as conn:
        (outcome,) = await confirm_payments(conn, [each], now=now, seal=SEAL, fees=fees)
    assert not isinstance(outcome, Refused)
    return each


async def pay_new_charge(pool: Pool, account_id: UUID, cents: int, *, test: bool = False, **how: Any) -> UUID:
    charge_id = await new_charge(pool, account_id, cents, test=test)
    await confirm_payment_of(pool, charge_id, cents, **how)
    return charge_id


def new_withdrawal(account_id: UUID, cents: int) -> NewWithdrawal:
    return NewWithdrawal(
        account_id=account_id, key=secrets.token_hex(8), fingerprint=bytes(32), withdrawal_id=new_id(),
        amount_cents=cents, description=None, external_id="S-1", actor="test", request_id="test",
    )  # fmt: skip


async def make_withdrawal(pool: Pool, account_id: UUID, cents: int) -> UUID:
    asked = new_withdrawal(account_id, cents)
    now = to_millisecond(datetime.now(UTC))
    async with transaction(pool) as conn:
        doc = await create_withdrawal(conn, asked, now=now, bank="001", grace_s=3600, fees=NO_FEES)
        assert doc is not None
        await conn.execute(
            "DELETE FROM bank_order WHERE order_id = $1", asked.withdrawal_id
        )  # The order is never sent to a bank.
    return asked.withdrawal_id


@MODES
async def test_a_fee_is_booked_right_behind_its_payment_in_both_modes(
    pool: Pool, merchant: UUID, test: bool, known_differences: list[Difference]
) -> None:
    pix = await pay_new_charge(pool, merchant, 10_050, test=test)
    boleto = await pay_new_charge(pool, merchant, 10_050, test=test, boleto=True)
    assert await ledger_of(pool, merchant, test=test) == [
        ("payment", 10_050), ("fee", -109), ("payment", 10_050), ("fee", -199),
    ]  # fmt: skip
    async with session(pool) as conn:
        docs = await charges_by_id(conn, [(each, Owner.of(merchant, test)) for each in (pix, boleto)])
    assert [each.payment.fee_cents for each in docs if each and each.payment] == [109, 199]
    rows = await pool.fetch(
        "SELECT l.charge_id, p.charge_id AS paid, p.fee_cents, l.amount_cents FROM read_ledger l"
        " JOIN payment p USING (account_id, payment_id) WHERE l.account_id = $1 AND l.test = $2 AND type = 'fee'",
        merchant, test,
    )  # fmt: skip
    assert [(row["charge_id"], row["amount_cents"]) for row in rows] == [(r["paid"], -r["fee_cents"]) for r in rows]
    assert len(rows) == 2
    told = await pool.fetch(
        "SELECT payload -> 'fee' FROM journal WHERE account_id = $1 AND test = $2 AND kind = 'fee.charged'"
        " ORDER BY journal_id", merchant, test,
    )  # fmt: skip
    assert [msgspec.json.decode(row[0]) for row in told] == [
        {"method": "pix", "bps": 99, "cents": 10, "cents_min": 25, "cents_max": 500},
        {"method": "boleto", "cents": 199},
    ]


@pytest.mark.parametrize(("cents", "fee"), [(1, 1), (24, 24), (100, 25), (1_515, 25), (5_000, 60), (90_000, 500)])
async def test_a_fee_keeps_its_minimum_and_maximum_and_never_exceeds_its_payment(
    pool: Pool, merchant: UUID, cents: int, fee: int
) -> None:
    await pay_new_charge(pool, merchant, cents)
    assert await ledger_of(pool, merchant) == [("payment", cents), ("fee", -fee)]
    assert await balance_of(pool, merchant) == cents - fee


async def test_a_payment_without_fee_leaves_no_fee_entry(pool: Pool) -> None:
    account_id = await make_account(pool)
    await pay_new_charge(pool, account_id, 10_000)
    await pay_new_charge(pool, account_id, 10_000, boleto=True)
    assert await ledger_of(pool, account_id) == [("payment", 10_000)] * 2
    kinds = await pool.fetch("SELECT kind FROM journal WHERE account_id = $1 AND kind LIKE 'fee%'", account_id)
    assert kinds == []


async def test_the_platforms_terms_apply_to_accounts_without_their_own(pool: Pool, merchant: UUID) -> None:
    platform, other = FeeTerms(pix_cents=7, boleto_cents=77), await make_account(pool)
    for account_id in (other, merchant):
        await pay_new_charge(pool, account_id, 10_000, fees=platform)
    assert await ledger_of(pool, other) == [("payment", 10_000), ("fee", -7)]
    assert await ledger_of(pool, merchant) == [("payment", 10_000), ("fee", -109)]
    await agree(pool, merchant, NO_FEES)
    await pay_new_charge(pool, merchant, 10_000, fees=platform)
    assert (await ledger_of(pool, merchant))[2:] == [("payment", 10_000)], "the account's own terms have no fee"
    await agree(pool, merchant, None)
    await pay_new_charge(pool, merchant, 10_000, fees=platform)
    assert (await ledger_of(pool, merchant))[3:] == [("payment", 10_000), ("fee", -7)]


async def test_changed_terms_apply_to_payments_confirmed_afterwards_also_of_older_charges(
    pool: Pool, merchant: UUID, known_differences: list[Difference]
) -> None:
    first, second = [await new_charge(pool, merchant, 10_000) for _ in range(2)]
    before = await confirm_payment_of(pool, first, 10_000)
    await agree(pool, merchant, FeeTerms(pix_cents=1))
    await confirm_payment_of(pool, second, 10_000)
    async with transaction(pool) as conn:  # The repeated payment is already booked, and is not charged again.
        await confirm_payments(conn, [before], now=datetime.now(UTC), seal=SEAL, fees=TERMS)
    assert await ledger_of(pool, merchant) == [("payment", 10_000), ("fee", -109), ("payment", 10_000), ("fee", -1)]


@MODES
async def test_anomalous_payments_cost_the_same_fee(
    pool: Pool, merchant: UUID, test: bool, known_differences: list[Difference]
) -> None:
    charge_id = await new_charge(pool, merchant, 10_000, test=test)
    for cents in (9_000, 20_000, 10_000):  # Too little, too much, and a duplicate.
        await confirm_payment_of(pool, charge_id, cents)
    assert await ledger_of(pool, merchant, test=test) == [
        ("payment", 9_000), ("fee", -99), ("payment", 20_000), ("fee", -208), ("payment", 10_000), ("fee", -109),
    ]  # fmt: skip
    kinds = await pool.fetch(
        "SELECT kind, event_sequence FROM journal WHERE charge_id = $1 AND kind <> 'charge.created'"
        " ORDER BY journal_id",
        charge_id,
    )
    assert [(row[0], row[1]) for row in kinds] == [
        ("payment.anomaly", 1), ("fee.charged", None), ("payment.received", 2), ("fee.charged", None),
        ("payment.anomaly", 3), ("payment.anomaly", 4), ("fee.charged", None),
    ]  # fmt: skip


async def test_refunds_and_reversals_do_not_return_the_fee(
    pool: Pool, merchant: UUID, known_differences: list[Difference]
) -> None:
    await pay_new_charge(pool, merchant, 50_000)
    charge_id = await new_charge(pool, merchant, 10_000)
    each = await confirm_payment_of(pool, charge_id, 10_000)
    payment_id = await pool.fetchval("SELECT payment_id FROM payment WHERE source = $1", each.source)
    await refunds(pool, merchant, [(charge_id, payment_id, 2_500)])
    returned = BankReturn(
        position=0, charge_id=charge_id, boleto_number=None, end_to_end_id=each.source, refund_id=None, bank_id="MED1",
        return_id=None, amount_cents=2_500,
    )  # fmt: skip
    async with transaction(pool) as conn:
        assert await book_reversals(conn, [returned], bank="001", now=datetime.now(UTC)) == 1
    await refunds(pool, merchant, [(charge_id, payment_id, 5_000)])
    assert (await ledger_of(pool, merchant))[2:] == [
        ("payment", 10_000), ("fee", -109), ("refund", -2_500), ("adjustment", -2_500), ("refund", -5_000),
    ]  # fmt: skip
    assert await pool.fetchval("SELECT fee_cents FROM payment WHERE payment_id = $1", payment_id) == 109
    assert await pool.fetchval("SELECT status FROM charge WHERE charge_id = $1", charge_id) == "paid"


async def test_a_full_refund_needs_other_money_of_the_account_for_the_fee(pool: Pool, merchant: UUID) -> None:
    charge_id = await new_charge(pool, merchant, 10_000)
    each = await confirm_payment_of(pool, charge_id, 10_000)
    payment_id = await pool.fetchval("SELECT payment_id FROM payment WHERE source = $1", each.source)
    with pytest.raises(Refused) as refused:
        await refunds(pool, merchant, [(charge_id, payment_id, 10_000)])
    assert refused.value.code is Code.INSUFFICIENT_BALANCE
    await pay_new_charge(pool, merchant, 1_000)
    await refunds(pool, merchant, [(charge_id, payment_id, 10_000)])
    assert await balance_of(pool, merchant) == 10_000 - 109 + 1_000 - 25 - 10_000
    assert await pool.fetchval("SELECT status FROM charge WHERE charge_id = $1", charge_id) == "refunded"


async def test_a_partners_share_is_computed_from_the_payment_before_fees(
    pool: Pool, merchant: UUID, known_differences: list[Difference]
) -> None:
    partner = await create_partner(pool, 1_000)
    assert partner.account_id is not None
    charge_id = await new_charge(pool, merchant, 10_000, code=partner.integrador_code)
    await book_further_payment(pool, charge_id, 10_000, partner.integrador_code)
    await post_partner_shares(pool)
    assert await ledger_of(pool, partner.account_id) == [("partner_share", 1_000)]
    assert await ledger_of(pool, merchant) == [("payment", 10_000), ("fee", -109)]


async def test_sandbox_payments_cost_the_same_fees_as_in_production(pool: Pool, merchant: UUID) -> None:
    owner, now = Owner(merchant, Mode.SANDBOX), to_millisecond(datetime.now(UTC))
    one, other = [await new_charge(pool, merchant, 10_000, test=True) for _ in range(2)]
    ids = [f"E{secrets.token_hex(15)}" for _ in range(3)]
    commands = [
        simulated_payment(
            one, owner, end_to_end_id=ids[0], seal=SEAL, fees=NO_FEES, actor="test", request_id="test"
        ),
        paying(
            other, owner, end_to_end_ids=ids[1:], amount_cents=None, paid_at=None, seal=SEAL, fees=NO_FEES,
            actor="test", request_id="test",
        ),
    ]  # fmt: skip
    async with transaction(pool) as conn:
        await change_charges(conn, commands, now=now)
        await conn.execute("DELETE FROM bank_order WHERE charge_id = ANY($1)", [one, other])
    assert await ledger_of(pool, merchant, test=True) == [("payment", 10_000), ("fee", -109)] * 3
    assert await ledger_of(pool, merchant) == []


async def test_the_balance_must_cover_a_withdrawals_fee_and_both_are_returned_together(
    pool: Pool, merchant: UUID, known_differences: list[Difference]
) -> None:
    await pay_new_charge(pool, merchant, 10_000)
    there = 10_000 - 109
    with pytest.raises(Refused) as refused:
        await make_withdrawal(pool, merchant, there - 349)
    assert refused.value.code is Code.INSUFFICIENT_BALANCE
    assert await balance_of(pool, merchant) == there
    now = to_millisecond(datetime.now(UTC))
    cancelled = await make_withdrawal(pool, merchant, there - 350)
    assert await balance_of(pool, merchant) == 0
    async with transaction(pool) as conn:
        await cancel_withdrawal(conn, cancelled, merchant, actor="test", request_id=None, now=now)
    failed, sent = [await make_withdrawal(pool, merchant, 1_000) for _ in range(2)]
    await agree(
        pool, merchant, FeeTerms(withdrawal_cents=1)
    )  # The fee that was taken is returned, whatever the terms are now.
    for withdrawal_id, failure in ((failed, WithdrawalFailure.BANK_REFUSED), (sent, None)):
        async with transaction(pool) as conn:
            await start_sending(conn, withdrawal_id, merchant, now=now)
            ended = WithdrawalEnd(account_id=merchant, withdrawal_id=withdrawal_id, end_to_end_id="E1", failure=failure)
            await end_withdrawal(conn, ended, now=now)
    assert (await ledger_of(pool, merchant))[2:] == [
        ("withdrawal", 350 - there), ("fee", -350), ("withdrawal_reversal", there - 350), ("fee", 350),
        ("withdrawal", -1_000), ("fee", -350), ("withdrawal", -1_000), ("fee", -350),
        ("withdrawal_reversal", 1_000), ("fee", 350),
    ]  # fmt: skip
    rows = await pool.fetch(
        "SELECT count(DISTINCT withdrawal_id) AS named, bool_and(external_id = 'S-1') AS referenced FROM read_ledger"
        " WHERE account_id = $1 AND type = 'fee' AND payment_id IS NULL", merchant,
    )  # fmt: skip
    assert tuple(rows[0]) == (3, True)


async def test_the_daily_withdrawal_leaves_room_for_its_fee(pool: Pool, merchant: UUID) -> None:
    await pay_new_charge(pool, merchant, 10_000)
    now = to_millisecond(datetime.now(UTC))
    day = now.astimezone(SAO_PAULO).date()
    async with transaction(pool) as conn:
        await conn.execute("UPDATE auto_withdrawal SET looked_on = $1", day)  # Excludes accounts of other tests.
        await set_daily(conn, merchant, keep_cents=1_000)
    await pool.execute("UPDATE account SET pix_key = 'ana@loja.example' WHERE account_id = $1", merchant)
    async with transaction(pool) as conn:
        begun = await daily_withdrawal(conn, day=day, now=now, bank="001", grace_s=3600, fees=NO_FEES)
        await conn.execute("DELETE FROM bank_order WHERE account_id = $1", merchant)
    assert isinstance(begun, Withdrawal)
    assert (begun.amount_cents, begun.fee_cents) == (10_000 - 109 - 1_000 - 350, 350)
    assert await balance_of(pool, merchant) == 1_000


async def test_a_change_of_terms_is_audited_with_its_reason_and_mailed_to_the_owners(pool: Pool) -> None:
    account_id = await make_account(pool)
    email = f"dona-{secrets.token_hex(4)}@loja.example"
    async with transaction(pool) as conn:
        await add_person(conn, account_id, email, "owner", None, now=datetime.now(UTC))
    reason = "  volume \n acima de 1 milhão "
    await agree(pool, account_id, TERMS, reason)
    facts = fee_facts(TERMS, reason)
    assert facts == {
        "fee_pix": "0,99% + R$\u00a00,10, no mínimo R$\u00a00,25, no máximo R$\u00a05,00",
        "fee_boleto": "R$\u00a01,99", "fee_withdrawal": "R$\u00a03,50", "reason": "volume acima de 1 milhão",
    }  # fmt: skip
    async with session(pool) as conn:
        assert await own_terms(conn, account_id) == TERMS
    rows = await pool.fetch("SELECT email, action, facts FROM audit WHERE account_id = $1", account_id)
    assert [(row[0], row[1], msgspec.json.decode(row[2])) for row in rows] == [("Plataforma", SET, facts)]
    mails = await pool.fetchval("SELECT count(*) FROM mail WHERE account_id = $1 AND kind = 'security'", account_id)
    assert mails == 1
    await agree(pool, account_id, None)
    least = FeeTerms(pix_cents_min=25, pix_cents_max=500)
    assert fee_facts(least, "x") == {
        "fee_pix": "R$\u00a00,25, no máximo R$\u00a05,00",
        "fee_boleto": "nenhuma", "fee_withdrawal": "nenhuma", "reason": "x",
    }  # fmt: skip
    assert fee_facts(None, "contrato 12") == {"fees": "padrão da plataforma", "reason": "contrato 12"}
    async with session(pool) as conn:
        assert await own_terms(conn, account_id) is None


@pytest.mark.parametrize(
    ("terms", "reason", "fields"),
    [
        (TERMS, "", ["reason"]),
        (TERMS, "x" * 501, ["reason"]),
        (TERMS, "contrato\0", ["reason"]),
        (FeeTerms(pix_bps=PIX_BPS_MAX + 1), "sim", ["pix_bps"]),
        (FeeTerms(boleto_cents=FEE_CENTS_MAX + 1, withdrawal_cents=-1), "sim", ["boleto_cents", "withdrawal_cents"]),
        (FeeTerms(pix_cents_min=2, pix_cents_max=1), "sim", ["pix_cents_max"]),
        (FeeTerms(pix_cents_max=0), "sim", ["pix_cents_max"]),
    ],
)
async def test_impossible_terms_and_a_missing_reason_are_refused(
    pool: Pool, merchant: UUID, terms: FeeTerms, reason: str, fields: list[str]
) -> None:
    with pytest.raises(Refused) as refused:
        await agree(pool, merchant, terms, reason)
    assert (refused.value.code, sorted(refused.value.fields or {})) == (Code.VALIDATION_ERROR, fields)
    async with session(pool) as conn:
        assert await own_terms(conn, merchant) == TERMS


async def test_changing_the_terms_of_an_unknown_account_is_refused(pool: Pool) -> None:
    with pytest.raises(Refused) as refused:
        await agree(pool, new_id(), TERMS)
    assert refused.value.code is Code.WALLET_ACCOUNT_NOT_FOUND


@pytest.mark.parametrize(
    ("alter", "what"),
    [
        ("UPDATE payment SET fee_cents = fee_cents + 1 WHERE account_id = $1", "fees of payments"),
        ("UPDATE payment SET fee_cents = 0 WHERE account_id = $1", "fees of payments"),
        ("UPDATE withdrawal SET fee_cents = 0 WHERE account_id = $1", "withdrawals not debited once"),
        ("UPDATE withdrawal SET fee_cents = fee_cents + 1 WHERE account_id = $1", "withdrawals not debited once"),
        (
            "UPDATE read_ledger SET amount_cents = amount_cents - 1 WHERE account_id = $1 AND type = 'fee'",
            "missing or stale",
        ),
        ("DELETE FROM read_ledger WHERE account_id = $1 AND type = 'fee'", "missing or stale"),
    ],
)
async def test_verify_reports_a_fee_that_was_altered(
    pool: Pool, servers: Any, merchant: UUID, alter: str, what: str
) -> None:
    await pay_new_charge(pool, merchant, 10_000)
    await pay_new_charge(pool, merchant, 10_000, boleto=True)
    await make_withdrawal(pool, merchant, 1_000)
    scope = VerifyScope(account_id=merchant)
    assert await verify(servers.database_url, scope=scope) == []
    payments = await pool.fetch("SELECT payment_id, fee_cents FROM payment WHERE account_id = $1", merchant)
    lines = await pool.fetch("SELECT to_jsonb(l) FROM read_ledger l WHERE account_id = $1 AND type = 'fee'", merchant)
    await pool.execute(alter, merchant)
    found = [each.what for each in await verify(servers.database_url, scope=scope)]
    assert any(each.startswith(what) for each in found), found
    await pool.execute("UPDATE withdrawal SET fee_cents = 350 WHERE account_id = $1", merchant)
    await pool.executemany("UPDATE payment SET fee_cents = $2 WHERE payment_id = $1", [tuple(row) for row in payments])
    await pool.execute("DELETE FROM read_ledger WHERE account_id = $1 AND type = 'fee'", merchant)
    await pool.executemany(
        "INSERT INTO read_ledger SELECT * FROM jsonb_populate_record(NULL::read_ledger, $1)",
        [(row[0],) for row in lines],
    )
    assert await verify(servers.database_url, scope=scope) == []
