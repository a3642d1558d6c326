"""What payments and statement come to: of what the filters select, from kept totals where there are some."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from domain.instants import SAO_PAULO
from domain.mode import Mode, Owner
from readmodels.money.ledger import LedgerFilters, ledger_sums
from readmodels.money.payment_list import PaymentFilters, payment_sum
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.dashboard import Books, a_merchant, person_of, settings_with
from tests.support.pages import serving

SETTINGS = settings_with()
NBSP = "\u00a0"


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as address, person_of(address, merchant) as owner:
        yield owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key))


async def written(pool: Pool, account_id: UUID, number: int, kind: str, cents: int, after: int, at: datetime) -> None:
    """A line of the statement."""
    await pool.execute(
        "INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents,"
        " created_at) VALUES ($1, false, $2, $3, $4, $5, $6, $7)",
        account_id, number, uuid4(), kind, cents, after, at,
    )  # fmt: skip


async def test_payments_come_to_what_their_filters_select(shop: Any) -> None:
    owner, books = shop
    for cents in (1000, 2050):
        await books.paid(await books.charge(cents, external_id=f"ped-{cents}"))
    await books.paid(await books.charge(700, test=True))
    assert f"2 pagamentos, R${NBSP}30,50" in (await owner.opened("/painel/pagamentos")).text
    assert f"1 pagamento, R${NBSP}20,50" in (await owner.opened("/painel/pagamentos?external_id=ped-2050")).text
    assert f"0 pagamentos, R${NBSP}0,00" in (await owner.opened("/painel/pagamentos?method=boleto")).text
    today = datetime.now(SAO_PAULO).date()
    assert f"2 pagamentos, R${NBSP}30,50" in (await owner.opened(f"/painel/pagamentos?paid_from={today}")).text
    past = today - timedelta(days=1)
    assert f"0 pagamentos, R${NBSP}0,00" in (await owner.opened(f"/painel/pagamentos?paid_to={past}")).text
    assert f"1 pagamento, R${NBSP}7,00" in (await owner.opened("/painel/teste/pagamentos")).text


async def test_the_statement_comes_to_what_its_kinds_do(shop: Any) -> None:
    owner, books = shop
    await books.paid(await books.charge(100_00))
    await written(books.pool, books.account_id, 2, "refund", -30_00, 70_00, datetime.now(UTC))
    await written(books.pool, books.account_id, 3, "withdrawal", -80_00, -10_00, datetime.now(UTC))
    text = (await owner.opened("/painel/extrato")).text
    assert f"3 lançamentos, ao todo −R${NBSP}10,00" in text
    assert f"Pagamento recebido 1 +R${NBSP}100,00" in text
    assert f"Devolução 1 −R${NBSP}30,00" in text
    assert f"Saque 1 −R${NBSP}80,00" in text
    only = (await owner.opened("/painel/extrato?type=refund")).text
    assert f"1 lançamento, ao todo −R${NBSP}30,00" in only
    tomorrow = datetime.now(SAO_PAULO).date() + timedelta(days=1)
    assert "ao todo" not in (await owner.opened(f"/painel/extrato?created_from={tomorrow}")).text


async def test_totals_that_would_take_long_are_said_not_to_be_there(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, books = shop
    await books.paid(await books.charge(1000, external_id="ped-9"))
    monkeypatch.setattr("web.painel.totals.COUNTED_S", 0.0)
    for path in ("/painel/pagamentos", "/painel/extrato", "/painel/cobrancas"):
        seen = await owner.opened(path)
        assert "não calculado" in seen.text
        assert re.search(r"ped-9", seen.html), path


async def test_kept_days_are_taken_from_the_totals_and_later_ones_from_the_lines_none_twice(pool: Pool) -> None:
    """The totals were brought up to noon of a day: that day's lines are partly in them."""
    account_id = uuid4()
    owner = Owner(account_id, Mode.PRODUCTION)
    noon = datetime(2026, 3, 10, 15, tzinfo=UTC)
    days = {noon - timedelta(days=1): 1_00, noon - timedelta(hours=1): 2_00, noon + timedelta(hours=1): 4_00}
    async with pool.acquire() as conn:
        undone = conn.transaction()
        await undone.start()
        try:
            await conn.execute("UPDATE report_position SET as_of = $1", noon)
            for number, (at, cents) in enumerate(days.items(), 1):
                await conn.execute(
                    "INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents,"
                    " balance_after_cents, created_at) VALUES ($1, false, $2, $3, 'payment', $4, $4, $5)",
                    account_id, number, uuid4(), cents, at,
                )  # fmt: skip
                if at < noon:
                    await conn.execute(
                        "INSERT INTO report_entry (account_id, day, type, method, entries, cents, late, anomalous)"
                        " VALUES ($1, $2, 'payment', 'pix', 1, $3, 0, 0)",
                        account_id, at.astimezone(SAO_PAULO).date(), cents,
                    )  # fmt: skip
            (all_of_it,) = await ledger_sums(conn, owner, LedgerFilters())
            (first,) = await ledger_sums(conn, owner, LedgerFilters(created_to=noon.replace(hour=3)))
            # What is no longer among the lines shows that kept days are not counted from them.
            await conn.execute("DELETE FROM read_ledger WHERE account_id = $1 AND created_at < $2", account_id, noon)
            (kept,) = await ledger_sums(conn, owner, LedgerFilters())
            paid = await payment_sum(conn, owner, PaymentFilters())
        finally:
            await undone.rollback()
    assert (all_of_it.lines, all_of_it.cents) == (3, 7_00)
    assert (first.lines, first.cents) == (1, 1_00)
    assert (kept.lines, kept.cents) == (2, 5_00)
    assert paid.count == 1, "a line without its payment has no method"
