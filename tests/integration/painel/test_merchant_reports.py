"""The merchant's reports as pages and files: conversion, open charges by due date, and months beside their balance."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import openpyxl
import pytest_asyncio

from domain.instants import SAO_PAULO, day_begins
from runtime.seal import Seal
from tests.support.dashboard import Books, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.pages import serving
from tests.support.wallet import insert_ledger_entry

SETTINGS = settings_with()
NBSP = "\u00a0"
ADD_CHARGES = (
    "INSERT INTO span_charge (account_id, test, dated, span, starts, payment_method, status, charges, cents)"
    " SELECT $1, false, $2, s.span, s.starts, 'boleto', $4, $5, $6 FROM spans_of($3::date) s"
    " ON CONFLICT (account_id, test, dated, span, starts, payment_method, status)"
    " DO UPDATE SET charges = span_charge.charges + excluded.charges, cents = span_charge.cents + excluded.cents"
)


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        yield owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key)), address, merchant


async def test_the_conversion_report_counts_issued_charges_that_were_paid_expired_or_cancelled(shop: Any) -> None:
    owner, books, *_ = shop
    today = datetime.now(SAO_PAULO).date()
    old = today - timedelta(days=3)
    for day, status, charges in (
        (today, "paid", 2),
        (today, "expired", 1),
        (old, "refunded", 1),
        (old, "cancelled", 4),
    ):
        await books.pool.execute(ADD_CHARGES, books.account_id, "issued", day, status, charges, charges * 10_00)
    # The same charges are also stored by their due dates.
    await books.pool.execute(ADD_CHARGES, books.account_id, "due", today, "paid", 2, 20_00)
    page = await owner.opened("/painel/relatorios/conversao")
    assert f"{today:%d/%m/%Y} 3 R${NBSP}30,00 2 R${NBSP}20,00 66,67% 0 1 0 0" in page.text
    assert f"{old:%d/%m/%Y} 5 R${NBSP}50,00 1 R${NBSP}10,00 20,00% 0 0 4 0" in page.text
    assert f"Total 8 R${NBSP}80,00 3 R${NBSP}30,00 37,50% 0 1 4 0" in page.text
    assert page.text.index(f"{today:%d/%m/%Y} 3") < page.text.index(f"{old:%d/%m/%Y} 5"), "the newest first"
    only = await owner.opened(f"/painel/relatorios/conversao?de={today}&ate={today}")
    assert f"{old:%d/%m/%Y}" not in only.text
    lines = (await owner.opened(f"/painel/relatorios/conversao.csv?de={today}&ate={today}")).html.splitlines()
    assert lines[1:] == [f"{today};3;30,00;2;20,00;66,67;0;1;0;0", "Total;3;30,00;2;20,00;66,67;0;1;0;0"]
    months = await owner.opened(f"/painel/relatorios/conversao?de={today}&ate={today}&por=month")
    assert f"{today:%m/%Y} 3 R${NBSP}30,00" in months.text
    wrong = await owner.get(f"/painel/relatorios/conversao?de={today}&ate={old}")
    assert (wrong.status, "Termina antes de começar" in wrong.text) == (400, True)


async def test_test_charges_are_counted_in_the_test_section_alone(shop: Any) -> None:
    owner, books, *_ = shop
    open_doc = await books.charge(700, test=True)
    await books.paid(await books.charge(300, test=True))
    today = datetime.now(SAO_PAULO).date()
    text = (await owner.opened("/painel/teste/relatorios/conversao")).text
    assert f"{today:%d/%m/%Y} 2 R${NBSP}10,00 1 R${NBSP}3,00 50,00% 1 0 0 0" in text
    overdue = "UPDATE charge SET expires_at = now() - interval '1 second' WHERE charge_id = $1"
    await books.pool.execute(overdue, UUID(open_doc.charge_id))
    text = (await owner.opened("/painel/teste/relatorios/conversao")).text
    assert f"{today:%d/%m/%Y} 2 R${NBSP}10,00 1 R${NBSP}3,00 50,00% 0 1 0 0" in text, (
        "expired, as in the list of charges"
    )
    assert "Nenhuma cobrança neste período" in (await owner.opened("/painel/relatorios/conversao")).text
    doc = await books.charge(test=True)
    due = "UPDATE read_charge SET due_date = $2 WHERE charge_id = $1"
    await books.pool.execute(due, UUID(doc.charge_id), today)
    assert f"Em aberto, vence hoje 1 R${NBSP}10,00" in (await owner.opened("/painel/teste/relatorios/vencimentos")).text
    await books.pool.execute(overdue, UUID(doc.charge_id))
    file = (await owner.opened("/painel/teste/relatorios/vencimentos.csv")).html
    assert [line for line in file.splitlines()[1:] if not line.endswith(";0;0,00")] == [
        '"Expirado, vencido há até 7 dias";1;10,00'
    ]
    assert (await owner.get("/painel/teste/relatorios/meses")).status == 404


async def test_the_due_date_report_groups_open_charges_by_days_left_and_expired_ones_by_days_since(shop: Any) -> None:
    owner, books, *_ = shop
    today = datetime.now(SAO_PAULO).date()
    for days, status, boletos in (
        (0, "pending", 1),
        (7, "pending", 2),
        (30, "pending", 3),
        (31, "pending", 4),
        (-8, "expired", 5),
    ):
        due = today + timedelta(days=days)
        await books.pool.execute(ADD_CHARGES, books.account_id, "due", due, status, boletos, boletos * 100)
    text = (await owner.opened("/painel/relatorios/vencimentos")).text
    for line in (
        "vence hoje 1",
        "vence em 1 a 7 dias 2",
        "vence em 8 a 30 dias 3",
        "em mais de 30 dias 4",
        "há 8 a 30 dias 5",
    ):
        assert line in text, line


async def test_the_monthly_report_sums_entries_by_type_and_compares_them_with_the_balance(shop: Any) -> None:
    owner, books, address, merchant = shop
    today = datetime.now(SAO_PAULO).date()
    begins = day_begins(today.replace(day=1))
    past = begins - timedelta(milliseconds=1)
    lines = (
        ("payment", 100_00, 100_00, past),
        ("refund", -30_00, 70_00, past),
        ("withdrawal", -50_00, 20_00, begins),
    )
    await books.paid(await books.charge(9_99, test=True))
    for number, (kind, cents, after, at) in enumerate(lines, 1):
        await insert_ledger_entry(books.pool, books.account_id, number, kind, cents, after, at)
    text = (await owner.opened("/painel/relatorios/meses")).text
    before = past.astimezone(SAO_PAULO)
    zero = f"R${NBSP}0,00"
    assert (
        f"{today:%m/%Y} 1 R${NBSP}70,00 {zero} {zero} −R${NBSP}50,00 {zero} {zero} {zero} {zero} R${NBSP}20,00 confere"
        in text
    )
    assert (
        f"{before:%m/%Y} 2 {zero} R${NBSP}100,00 −R${NBSP}30,00 {zero} {zero} R${NBSP}100,00 {zero} {zero}"
        f" R${NBSP}70,00 confere" in text
    )
    assert text.count("confere") == 2, "no month before the first entry is listed"
    assert text.index(f"{today:%m/%Y} 1") < text.index(f"{before:%m/%Y} 2"), "the newest first"
    sheet = await owner.http.get(f"{address}/painel/relatorios/meses.xlsx")
    book = openpyxl.load_workbook(BytesIO(await sheet.read()))
    assert [cell.value for cell in book.worksheets[0][3]][3] == 100
    # A lost or changed entry shows as a difference.
    await books.pool.execute(
        "UPDATE read_ledger SET balance_after_cents = 19_00 WHERE account_id = $1 AND sequence = 3", books.account_id
    )
    assert f"difere em R${NBSP}1,00" in (await owner.opened("/painel/relatorios/meses")).text
    async with colleague_in_browser(books.pool, address, merchant, "support") as support:
        listed = await support.opened("/painel/relatorios")
        assert ("Fechamento por mês" in listed.text, "Conversão" in listed.text) == (False, True)
