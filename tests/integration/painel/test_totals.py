"""Sums of payments and of the statement over what the filters select, from kept totals where there are some."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from domain.instants import SAO_PAULO, day_begins
from domain.mode import Mode, Owner
from readmodels import spans
from readmodels.money.ledger import LedgerFilters, ledger_sums
from readmodels.money.payment_list import PaymentFilters, PaymentSum, payment_sum
from readmodels.reports.fold import Fold, fold, hold
from readmodels.reports.merchant import settled_months
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.dashboard import Books, a_merchant, owner_in_browser, settings_with
from tests.support.pages import serving
from tests.support.wallet import insert_ledger_entry
from web.painel.xlsx_export import xlsx_answer

# A page takes its account's only turn while it is made: its own reads must not wait for another turn.
SETTINGS = settings_with(ACCOUNT_AT_ONCE="1")
NBSP = "\u00a0"


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        yield owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key))


async def test_the_sum_of_payments_covers_what_the_filters_select(shop: Any) -> None:
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


async def test_the_statement_shows_its_total_and_the_sum_of_each_type_of_entry(shop: Any) -> None:
    owner, books = shop
    await books.paid(await books.charge(100_00))
    await insert_ledger_entry(books.pool, books.account_id, 2, "refund", -30_00, 70_00, datetime.now(UTC))
    await insert_ledger_entry(books.pool, books.account_id, 3, "withdrawal", -80_00, -10_00, datetime.now(UTC))
    text = (await owner.opened("/painel/extrato")).text
    assert f"3 lançamentos, ao todo −R${NBSP}10,00" in text
    assert f"Pagamento recebido 1 +R${NBSP}100,00" in text
    assert f"Devolução 1 −R${NBSP}30,00" in text
    assert f"Saque 1 −R${NBSP}80,00" in text
    only = (await owner.opened("/painel/extrato?type=refund")).text
    assert f"1 lançamento, ao todo −R${NBSP}30,00" in only
    tomorrow = datetime.now(SAO_PAULO).date() + timedelta(days=1)
    assert "ao todo" not in (await owner.opened(f"/painel/extrato?created_from={tomorrow}")).text


async def test_workbooks_and_pages_of_an_account_do_not_wait_for_each_other(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, books = shop
    await books.paid(await books.charge(1000))
    for path in ("/painel/pagamentos.xlsx", "/painel/cobrancas.xlsx", "/painel/extrato.xlsx"):
        assert (await owner.get(path)).status == 200, path
    made, page_shown = asyncio.Event(), asyncio.Event()

    async def answer_after_the_page(*given: Any) -> Any:
        made.set()
        await page_shown.wait()
        return await xlsx_answer(*given)

    monkeypatch.setattr("web.painel.list_page.xlsx_answer", answer_after_the_page)
    async with asyncio.TaskGroup() as tasks:
        workbook = tasks.create_task(owner.get("/painel/pagamentos.xlsx"))
        await made.wait()
        assert "1 pagamento" in (await owner.opened("/painel/pagamentos")).text
        page_shown.set()
    assert workbook.result().status == 200


async def test_totals_that_would_take_too_long_are_reported_as_not_calculated(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, books = shop
    await books.paid(await books.charge(1000, external_id="ped-9"))
    monkeypatch.setattr("web.painel.totals.TOTALS_S_MAX", 0.0)
    for path in ("/painel/pagamentos", "/painel/extrato", "/painel/cobrancas"):
        seen = await owner.opened(path)
        assert "não calculado" in seen.text
        assert re.search(r"ped-9", seen.html), path
        assert ("Participações a liberar: não calculado" in seen.text) == (path == "/painel/extrato")


async def test_sums_add_entries_that_are_not_in_the_totals_yet_to_the_kept_totals(table_owner: Pool) -> None:
    """Two entries are in the totals. Of the two that are not, one is of the day before, committed after midnight."""
    account_id = uuid4()
    owner = Owner(account_id, Mode.PRODUCTION)
    noon = datetime(2026, 3, 10, 15, tzinfo=UTC)
    midnight = noon.replace(hour=3)
    kept = ((noon - timedelta(days=1), 1_00), (noon - timedelta(hours=1), 2_00))
    behind = ((midnight - timedelta(seconds=1), 4_00), (noon + timedelta(hours=1), 8_00))
    async with table_owner.acquire() as conn:
        undone = conn.transaction()
        await undone.start()
        try:
            ids = [
                await insert_ledger_entry(conn, account_id, number, "payment", cents, cents, at)
                for number, (at, cents) in enumerate(kept, 1)
            ]
            await hold(conn)
            await fold(conn, ids, (Fold.ENTRIES,))
            await conn.execute("UPDATE report_position SET journal_id = $1", ids[-1])
            for number, (at, cents) in enumerate(behind, 3):
                await insert_ledger_entry(conn, account_id, number, "payment", cents, cents, at)
            # With read_ledger empty, the sums come from the totals and the journal alone.
            await conn.execute("DELETE FROM read_ledger WHERE account_id = $1", account_id)
            (all_of_it,) = await ledger_sums(conn, owner, LedgerFilters())
            (before,) = await ledger_sums(conn, owner, LedgerFilters(created_to=midnight))
            (since,) = await ledger_sums(conn, owner, LedgerFilters(created_from=midnight))
            paid = await payment_sum(conn, owner, PaymentFilters())
            await conn.execute(  # The total of a day is none of a month, also when the month begins with that day.
                "INSERT INTO span_entry VALUES ($1, 'day', '2026-03-01', 'payment', 'pix', 7, 700)", account_id
            )
            (month,) = await settled_months(conn, account_id, noon.date(), noon.date())
        finally:
            await undone.rollback()
    assert (all_of_it.lines, all_of_it.cents) == (4, 15_00)
    assert (before.lines, before.cents) == (2, 5_00)
    assert (since.lines, since.cents) == (2, 10_00)
    assert (paid.count, paid.cents) == (4, 15_00)
    assert (month.lines, month.moved) == (4, {"payment": 15_00})


async def test_entries_and_payments_are_counted_directly_while_the_totals_are_far_behind(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The totals hold seven invented payments, which show whether a sum was taken from the totals."""
    _, books = shop
    await books.paid(await books.charge(1000))
    owner = Owner(books.account_id, Mode.PRODUCTION)
    tomorrow = day_begins(datetime.now(SAO_PAULO).date() + timedelta(days=1))
    async with books.pool.acquire() as conn:
        undone = conn.transaction()
        await undone.start()
        try:
            await conn.execute(
                "INSERT INTO span_entry VALUES ($1, 'decade', '2010-01-01', 'payment', 'pix', 7, 700)", owner.account_id
            )
            for lag, lines, cents in ((spans.LAG_ROWS_MAX, 8, 1700), (-1, 1, 1000)):
                monkeypatch.setattr(spans, "LAG_ROWS_MAX", lag)
                (found,) = await ledger_sums(conn, owner, LedgerFilters(created_to=tomorrow))
                assert (found.type, found.lines, found.cents) == ("payment", lines, cents)
                assert await ledger_sums(conn, owner, LedgerFilters(created_from=tomorrow)) == []
                assert await payment_sum(conn, owner, PaymentFilters()) == PaymentSum(lines, cents, 0)
        finally:
            await undone.rollback()
