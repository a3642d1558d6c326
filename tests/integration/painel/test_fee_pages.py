"""Fees as merchants and staff see them: gross, fee and net add up everywhere, and staff change terms with a reason."""

import csv
import io
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated
from commands.money.fees import own_terms
from domain.instants import SAO_PAULO, day_begins
from domain.merchants.fees import FeeTerms
from domain.mode import Mode, Owner
from readmodels import spans
from readmodels.dashboard.overview import closings
from readmodels.money.payment_list import PaymentFilters, PaymentSum, payment_sum
from runtime.postgres import Pool, session, transaction
from runtime.seal import Seal
from tests.support.dashboard import Books, Person, Seen, a_merchant, owner_in_browser, settings_with, staff_in_browser
from tests.support.pages import serving
from tests.support.partners import fold_totals
from tests.support.wallet import insert_ledger_entry

SETTINGS = settings_with(
    STAFF_TOTP_REQUIRED="0", PIX_FEE_CENTS_MAX="500", BOLETO_FEE_CENTS="199", WITHDRAWAL_FEE_CENTS="100"
)
TERMS = FeeTerms(pix_bps=100, pix_cents=5, withdrawal_cents=250)
FIELDS: dict[str, Any] = {
    "pix_bps": "0,99", "pix_cents": "0,10", "pix_cents_min": "R$ 0,25", "pix_cents_max": "5", "boleto_cents": "0",
    "withdrawal_cents": "", "reason": "contrato 12",
}  # fmt: skip


class Environment(NamedTuple):
    merchant: MerchantCreated
    books: Books
    owner: Person
    staff: Person

    @property
    def page(self) -> str:
        return f"/plataforma/lojas/{self.merchant.account_id}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, address: str) -> AsyncIterator[Environment]:
    merchant = await a_merchant(pool)
    books = Books(pool, merchant.account_id, Seal(SETTINGS.secret_key))
    async with owner_in_browser(address, merchant) as owner, staff_in_browser(pool, address) as staff:
        yield Environment(merchant, books, owner, staff)


async def set_terms(pool: Pool, account_id: UUID, terms: FeeTerms = TERMS) -> None:
    await pool.execute("UPDATE account SET fees = $2 WHERE account_id = $1", account_id, msgspec.json.encode(terms))


def rows_in(seen: Seen) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(seen.html.removeprefix("\ufeff"), newline=""), delimiter=";", strict=True))


def plain(seen: Seen) -> str:
    return seen.text.replace("\u00a0", " ")


@pytest.mark.parametrize("test", [False, True], ids=["production", "sandbox"])
async def test_a_merchant_sees_gross_fee_and_net_of_a_payment(env: Environment, test: bool) -> None:
    await set_terms(env.books.pool, env.merchant.account_id)
    charge = await env.books.charge(10_000, test=test, external_id="pedido-1")
    await env.books.paid(charge)
    root = "/painel/teste" if test else "/painel"
    listed = plain(await env.owner.opened(f"{root}/pagamentos"))
    assert "R$ 100,00 tarifa R$ 1,05" in listed
    assert "1 pagamento, R$ 100,00 , tarifas R$ 1,05 , líquido R$ 98,95" in listed
    one = plain(await env.owner.opened(f"{root}/cobrancas/{charge.charge_id}"))
    assert "Tarifa R$ 1,05 Líquido R$ 98,95" in one
    assert "Tarifa cobrada" in one
    (row,) = rows_in(await env.owner.opened(f"{root}/pagamentos.csv"))
    assert (row["valor"], row["tarifa"], row["valor_liquido"]) == ("100,00", "1,05", "98,95")


async def test_statement_closings_and_monthly_report_show_gross_fees_and_net(env: Environment) -> None:
    await set_terms(env.books.pool, env.merchant.account_id)
    for cents in (10_000, 333):
        await env.books.paid(await env.books.charge(cents))
    lines = [(row["lancamento"], row["valor"]) for row in rows_in(await env.owner.opened("/painel/extrato.csv"))]
    assert lines == [
        ("Tarifa", "-0,08"),
        ("Pagamento recebido", "3,33"),
        ("Tarifa", "-1,05"),
        ("Pagamento recebido", "100,00"),
    ]
    only = plain(await env.owner.opened("/painel/extrato?type=fee"))
    assert "2 lançamentos, ao todo −R$ 1,13" in only
    days = await env.owner.opened("/painel/extrato/dias")
    assert "recebido R$ 103,33, tarifas R$ 1,13, líquido R$ 102,20" in plain(days)
    newest = rows_in(await env.owner.opened("/painel/extrato/dias.csv"))[0]
    names = ["entrou", "saiu", "saldo_final", "pagamentos", "recebido", "tarifas", "liquido"]
    assert [newest[name] for name in names] == ["103,33", "1,13", "102,20", "2", "103,33", "-1,13", "102,20"]
    month = rows_in(await env.owner.opened("/painel/relatorios/meses.csv"))[0]
    names = ["pagamentos", "tarifas", "liquido", "saldo_final", "conferencia"]
    assert [month[name] for name in names] == ["103,33", "-1,13", "102,20", "102,20", "confere"]


async def test_a_month_with_fees_and_no_payments_shows_the_fees_as_a_negative_net(env: Environment) -> None:
    """Money received the month before is withdrawn, for a fee of 3.50."""
    today = datetime.now(SAO_PAULO)
    before = today.replace(day=1) - timedelta(days=2)
    async with transaction(env.books.pool) as conn:
        await insert_ledger_entry(conn, env.merchant.account_id, 1, "payment", 10_000, 10_000, before)
        await insert_ledger_entry(conn, env.merchant.account_id, 2, "fee", -350, 9_650, today)
    seen = plain(await env.owner.opened("/painel/extrato/dias"))
    assert "recebido R$ 0,00, tarifas R$ 3,50, líquido −R$ 3,50" in seen


async def test_pages_about_days_and_payments_without_fees_do_not_mention_fees(env: Environment) -> None:
    await env.books.paid(await env.books.charge(10_000))
    for path in ("/painel/extrato/dias", "/painel/pagamentos"):
        assert "arifas" not in (await env.owner.opened(path)).text, path


async def test_a_days_fees_are_the_same_from_partly_folded_totals_as_from_the_entries(
    env: Environment, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    account_id, today = env.merchant.account_id, datetime.now(UTC).astimezone(SAO_PAULO).date()
    await set_terms(pool, account_id)
    owner = Owner(account_id, Mode.PRODUCTION)

    async def day_and_sum() -> tuple[Any, PaymentSum]:
        async with session(pool) as conn:
            (day,) = await closings(conn, owner, [today])
            return day, await payment_sum(conn, owner, PaymentFilters())

    for folded in (True, False):  # the second payment is not in the totals yet
        await env.books.paid(await env.books.charge(10_000))
        if folded:
            await fold_totals(pool)
    kept = await day_and_sum()
    monkeypatch.setattr(spans, "LAG_ROWS_MAX", -1)
    assert await day_and_sum() == kept
    day, summed = kept
    assert (day.payments, day.received_cents, day.fee_cents, day.lines) == (2, 20_000, 210, 4)
    assert (day.in_cents, day.out_cents, day.closing_cents) == (20_000, 210, 19_790)
    assert summed == PaymentSum(2, 20_000, 210)
    assert day_begins(day.on) <= datetime.now(UTC)


async def test_a_withdrawal_shows_its_fee_and_withdrawing_the_whole_balance_leaves_enough_for_it(
    env: Environment,
) -> None:
    await set_terms(env.books.pool, env.merchant.account_id)
    await env.books.paid(await env.books.charge(10_000))
    page = "/painel/saques"
    assert "mais a tarifa de R$ 2,50" in plain(await env.owner.opened(page))
    asked = await env.owner.post(page, on=page, all="yes", sure="yes")
    assert asked.where == f"{page}?feito=saque"
    (row,) = rows_in(await env.owner.opened(f"{page}.csv"))
    assert (row["valor"], row["tarifa"]) == ("96,45", "2,50")
    shown = plain(await env.owner.opened(page))
    assert "Saldo disponível R$ 0,00" in shown
    assert "R$ 96,45 tarifa R$ 2,50" in shown


async def test_a_merchant_sees_the_fees_it_is_charged(env: Environment, pool: Pool) -> None:
    shown = plain(await env.owner.opened("/painel/empresa"))
    assert "Por Pix recebido nenhuma Por boleto pago R$ 1,99 Por saque R$ 1,00" in shown
    await set_terms(pool, env.merchant.account_id)
    shown = plain(await env.owner.opened("/painel/empresa"))
    assert "Por Pix recebido 1,00% + R$ 0,05 Por boleto pago nenhuma Por saque R$ 2,50" in shown


async def test_staff_set_terms_for_a_merchant_and_return_it_to_the_platforms_terms(
    env: Environment, pool: Pool
) -> None:
    account_id = env.merchant.account_id
    mails = "SELECT count(*) FROM mail WHERE account_id = $1 AND kind = 'security'"
    before = await pool.fetchval(mails, account_id)
    shown = plain(await env.staff.opened(env.page))
    assert "Tarifas Padrão da plataforma Por Pix recebido nenhuma Por boleto pago R$ 1,99" in shown
    assert "Voltar ao padrão" not in shown
    answer = await env.staff.post(f"{env.page}/tarifas", on=env.page, **FIELDS)
    assert answer.where == f"{env.page}?feito=tarifas"
    async with session(pool) as conn:
        assert await own_terms(conn, account_id) == FeeTerms(
            pix_bps=99, pix_cents=10, pix_cents_min=25, pix_cents_max=500
        )
    shown = plain(await env.staff.opened(env.page))
    told = "0,99% + R$ 0,10, no mínimo R$ 0,25, no máximo R$ 5,00"
    assert f"Tarifas Próprias Por Pix recebido {told} Por boleto pago nenhuma" in shown
    assert "Mudou as tarifas de uma loja motivo: contrato 12" in shown
    assert f"tarifa por Pix: {told}" in shown
    form = await env.staff.opened(env.page)
    assert re.search(r'id="i-pix_bps"[^>]* value="0,99"', form.html)
    answer = await env.staff.post(f"{env.page}/tarifas/padrao", on=env.page, reason="fim do contrato")
    assert answer.status == 303
    async with session(pool) as conn:
        assert await own_terms(conn, account_id) is None
    for log in (await env.owner.audit_log(), await env.staff.audit_log()):
        assert "tarifas: padrão da plataforma" in log
    assert "Plataforma" in (await env.owner.opened("/painel/auditoria")).text
    assert await pool.fetchval(mails, account_id) - before == 2


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("reason", "", "Escreva o motivo"),
        ("pix_bps", "20,01", "Informe um percentual como 0,99"),
        ("pix_bps", "x", "Informe um percentual como 0,99"),
        ("pix_cents", "1000,01", "Informe um valor como 0,50"),
        ("boleto_cents", "-1", "Informe um valor como 0,50"),
        ("pix_cents_max", "0,24", "O máximo não fica abaixo do mínimo"),
        ("pix_cents_max", "0", "O máximo não fica abaixo do mínimo"),
    ],
)
async def test_invalid_terms_are_refused_beside_their_field(
    env: Environment, pool: Pool, field: str, value: str, said: str
) -> None:
    answer = await env.staff.post(f"{env.page}/tarifas", on=env.page, **{**FIELDS, field: value})
    assert answer.status == 400
    assert said in plain(answer)
    assert re.search(rf'id="w-{field}"', answer.html)
    async with session(pool) as conn:
        assert await own_terms(conn, env.merchant.account_id) is None


async def test_the_same_form_sent_twice_changes_terms_once(env: Environment, pool: Pool) -> None:
    form = await env.staff.opened(env.page)
    answers = [await env.staff.post(f"{env.page}/tarifas", form=form, **FIELDS) for _ in range(2)]
    assert [each.status for each in answers] == [303, 409]
    rows = await pool.fetchval(
        "SELECT count(*) FROM audit WHERE account_id = $1 AND action = 'merchant.fees_set'", env.merchant.account_id
    )
    assert rows == 1


async def test_a_merchant_cannot_change_its_own_terms(env: Environment, pool: Pool) -> None:
    for path in (f"{env.page}/tarifas", f"{env.page}/tarifas/padrao"):
        answer = await env.owner.post(path, on="/painel/empresa", **FIELDS)
        assert answer.status in (303, 403, 404), path
    async with session(pool) as conn:
        assert await own_terms(conn, env.merchant.account_id) is None


async def test_staff_see_fees_by_account_and_month(env: Environment, pool: Pool) -> None:
    await set_terms(pool, env.merchant.account_id)
    await env.books.paid(await env.books.charge(10_000))
    await fold_totals(pool)
    page = plain(await env.staff.opened(f"/plataforma/relatorios/fees?conta={env.merchant.account_id}"))
    assert "Tarifas por loja e mês" in page
    assert "1 R$ 100,00 R$ 1,05 R$ 0,00 R$ 0,00 R$ 1,05 1,05" in page
    assert "Tarifas por loja e mês" in (await env.staff.opened("/plataforma/relatorios")).text
