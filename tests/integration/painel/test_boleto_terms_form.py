"""Fine, interest and discounts set by a form or a sheet of the dashboard, registered at the bank and shown on the
page."""

import re
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any, NamedTuple

import aiohttp
import pytest
import pytest_asyncio

from domain.boleto.business_days import effective_due_date
from domain.brazilian import brl
from tests.support.boleto_merchant import in_days, redate
from tests.support.dashboard import Person, owner_in_browser
from tests.support.merchant import ApiMerchant, new_merchant
from tests.support.system import System

PAGE = "/painel/teste/cobrancas/nova"
FORM: dict[str, Any] = {
    "forma": "boleto", "kind": "boleto_hibrido", "amount": "1.000,00", "due_date": in_days(10),
    "payer_name": "Ana Lima", "payer_document": "529.982.247-25", "zip_code": "01310-100",
    "street": "Avenida Paulista", "number": "1578", "city": "São Paulo", "state": "SP",
    "fine_kind": "percent", "interest_kind": "percent", "discount_kind": "amount",
}  # fmt: skip


class Environment(NamedTuple):
    merchant: ApiMerchant
    owner: Person


@pytest_asyncio.fixture(loop_scope="session")
async def env(system: System) -> AsyncIterator[Environment]:
    async with new_merchant(system) as merchant, owner_in_browser(system.app_url, merchant.record) as owner:
        yield Environment(merchant, owner)


def faulty_fields(html: str) -> set[str]:
    return set(re.findall(r'class="fault" id="w-([a-z_]+)" role="alert">', html))


async def test_terms_entered_in_the_form_are_registered_and_shown_on_the_charge_page(env: Environment) -> None:
    done = await env.owner.post(
        PAGE, on=f"{PAGE}?forma=boleto", **FORM, fine="2", interest="1,00", payable_days="60",
        discount_first="50,00", discount_first_until=in_days(3), discount_second="20", discount_second_until=in_days(5),
    )  # fmt: skip
    assert done.status == 303, done.text[:600]
    charge = await env.merchant.sandbox.charge(done.where.rpartition("/")[2].partition("?")[0])
    assert (charge["fine"], charge["interest"]) == ({"percent": "2.00"}, {"percent_per_month": "1.00"})
    assert charge["discounts"] == [
        {"until": in_days(3), "amount": "50.00"}, {"until": in_days(5), "amount": "20.00"},
    ]  # fmt: skip
    assert charge["amount_due"]["amount"] == "950.00"
    shown = (await env.owner.opened(done.where)).text
    for each in ("desconto de R$\u00a050,00.", "multa de 2,00% (R$\u00a020,00).", "juros de 1,00% ao mês.",
                 "R$\u00a0950,00", "Não pode ser pago após"):  # fmt: skip
        assert each in shown, each
    # The form of the next charge takes over fine and interest, but not the discounts, whose days were of this charge.
    again = (await env.owner.opened(f"{PAGE}?de={charge['charge_id']}")).html
    for name, value in (("fine", "2,00"), ("interest", "1,00"), ("payable_days", "60"), ("discount_first", "")):
        assert re.search(rf'name="{name}" [^>]*value="{value}"', again), name
    assert '<details class="terms" open>' in again


@pytest.mark.parametrize(
    ("wrong", "fields"),
    [
        ({"fine": "2,01"}, {"fine"}),
        ({"fine": "muito"}, {"fine"}),
        ({"fine": "20,01", "fine_kind": "amount"}, {"fine"}),
        ({"interest": "1,5"}, {"interest"}),
        ({"interest": "0,34", "interest_kind": "amount"}, {"interest"}),
        ({"payable_days": "1"}, {"payable_days"}),
        ({"discount_first": "10"}, {"discount_first_until"}),
        ({"discount_first_until": in_days(3)}, {"discount_first"}),
        ({"discount_first": "10", "discount_first_until": in_days(11)}, {"discount_first_until"}),
        ({"discount_first": "1000", "discount_first_until": in_days(1)}, {"discount_first"}),
        ({"discount_second": "10", "discount_second_until": in_days(1)}, {"discount_second"}),
        ({"discount_first": "10", "discount_first_until": in_days(3), "discount_second": "5",
          "discount_second_until": in_days(2)}, {"discount_second_until"}),
    ],
)  # fmt: skip
async def test_terms_out_of_bounds_are_refused_beside_their_field(
    env: Environment, wrong: dict[str, str], fields: set[str]
) -> None:
    seen = await env.owner.post(PAGE, on=f"{PAGE}?forma=boleto", **(FORM | wrong))
    assert (seen.status, faulty_fields(seen.html)) == (400, fields), seen.text[:800]
    assert '<details class="terms" open>' in seen.html


async def test_a_company_payer_may_be_charged_a_higher_fine_and_interest(env: Environment) -> None:
    company = {"payer_document": "11.222.333/0001-81", "fine": "10", "interest": "2"}
    done = await env.owner.post(PAGE, on=f"{PAGE}?forma=boleto", **(FORM | company))
    assert done.status == 303, done.text[:600]


async def test_a_form_without_terms_makes_a_boleto_without_terms(env: Environment) -> None:
    done = await env.owner.post(PAGE, on=f"{PAGE}?forma=boleto", **FORM)
    charge = await env.merchant.sandbox.charge(done.where.rpartition("/")[2].partition("?")[0])
    assert "fine" not in charge
    assert "payable_until" not in charge


async def test_a_sheet_sets_percent_fine_percent_interest_and_a_discount(env: Environment) -> None:
    path = "/painel/teste/cobrancas/importar"
    head = "tipo;valor;vencimento;referencia;nome;documento;cep;rua;numero;cidade;estado;multa_percentual;"
    head += "juros_percentual_mes;desconto;desconto_ate\n"
    who = "Ana Lima;52998224725;01310-100;Avenida Paulista;1;São Paulo;SP"

    async def preview(*rows: str) -> Any:
        upload = aiohttp.FormData((await env.owner.opened(path)).hidden())
        upload.add_field("file", (head + "".join(rows)).encode(), filename="folha.csv")
        return await env.owner.ask("POST", path, data=upload)

    day = in_days(4)
    br_day = f"{day[8:]}/{day[5:7]}/{day[:4]}"
    page = await preview(f"boleto;200,00;{in_days(9)};com-multa;{who};2.00;1;10.00;{br_day}\n")
    carried = re.search(r'name="sheet" value="([^"]+)"', page.html)
    assert carried, page.text[:800]
    done = await env.owner.post(path, form=page, sheet=carried[1], sure="yes")
    assert "1 de 1" in done.text, done.text[:600]
    (charge,) = await env.merchant.sandbox.all("/v1/charges", external_id="com-multa")
    assert (charge["fine"], charge["interest"]) == ({"percent": "2.00"}, {"percent_per_month": "1.00"})
    assert charge["discounts"] == [{"until": day, "amount": "10.00"}]
    wrong = await preview(f"boleto;200,00;{in_days(9)};x;{who};3;1;;\n", "pix;10,00;;y;;;;;;;;2;;;\n")
    assert wrong.status == 400
    assert "multa_percentual" in wrong.text
    assert "Multa, juros e desconto são de boletos." in wrong.text


async def test_a_sheet_supports_every_kind_of_terms_that_the_form_supports(env: Environment) -> None:
    path = "/painel/teste/cobrancas/importar"
    head = "tipo;valor;vencimento;referencia;nome;documento;cep;rua;numero;cidade;estado;multa_valor;juros_valor_dia;"
    head += "pagavel_dias_depois;desconto_em;desconto;desconto_ate;desconto_2;desconto_2_ate;desconto_3;desconto_3_ate;"
    head += "multa_percentual\n"
    who = "Ana Lima;52998224725;01310-100;Avenida Paulista;1;São Paulo;SP"

    async def preview(*rows: str) -> Any:
        upload = aiohttp.FormData((await env.owner.opened(path)).hidden())
        upload.add_field("file", (head + "".join(rows)).encode(), filename="folha.csv")
        return await env.owner.ask("POST", path, data=upload)

    discounts = f"%;10;{in_days(2)};5,5;{in_days(3)};1;{in_days(4)}"
    page = await preview(f"boleto;200,00;{in_days(9)};em-reais;{who};3,00;0.06;15;{discounts};\n")
    carried = re.search(r'name="sheet" value="([^"]+)"', page.html)
    assert carried, page.text[:800]
    done = await env.owner.post(path, form=page, sheet=carried[1], sure="yes")
    assert "1 de 1" in done.text, done.text[:600]
    (charge,) = await env.merchant.sandbox.all("/v1/charges", external_id="em-reais")
    assert (charge["fine"], charge["interest"]) == ({"amount": "3.00"}, {"amount_per_day": "0.06"})
    assert [(each["until"], each["percent"]) for each in charge["discounts"]] == [
        (in_days(2), "10.00"), (in_days(3), "5.50"), (in_days(4), "1.00"),
    ]  # fmt: skip
    last = effective_due_date(date.fromisoformat(charge["effective_due_date"]) + timedelta(days=15))
    assert charge["payable_until"] == last.isoformat()
    for row, column in (
        (f"boleto;200,00;{in_days(9)};x;{who};4,01;;;;;;;;;;\n", "multa_valor"),
        (f"boleto;200,00;{in_days(9)};x;{who};3,00;;;;;;;;;;2\n", "multa_valor"),
        (f"boleto;200,00;{in_days(9)};x;{who};;0,07;;;;;;;;;\n", "juros_valor_dia"),
        (f"boleto;200,00;{in_days(9)};x;{who};;;1;;;;;;;;\n", "pagavel_dias_depois"),
        (f"boleto;200,00;{in_days(9)};x;{who};;;;pontos;5;{in_days(1)};;;;;\n", "desconto_em"),
        (f"boleto;200,00;{in_days(9)};x;{who};;;;;;;5;{in_days(1)};;;\n", "desconto_2"),
        ("pix;10,00;;y;;;;;;;;;1;;;;;;;;;\n", "juros_valor_dia"),
    ):
        wrong = await preview(row)
        assert wrong.status == 400
        assert re.findall(r'class="fault"><code>([a-z_0-9]+)</code>', wrong.html) == [column], wrong.text[:900]


SCHEDULE = "/painel/programacoes/nova"
SCHEDULE_FORM: dict[str, Any] = {
    "forma": "boleto", "amount": "1.000,00", "frequency": "monthly", "first_due_date": in_days(30),
    "issue_days_before": "10", "max_charges": "3",
    **{name: FORM[name] for name in FORM if name not in ("forma", "kind", "amount", "due_date")},
}  # fmt: skip


async def test_terms_of_a_schedule_are_stored_and_shown_on_its_page(env: Environment) -> None:
    done = await env.owner.post(
        SCHEDULE, on=f"{SCHEDULE}?forma=boleto", **SCHEDULE_FORM, fine="2", interest="1,00", payable_days="15",
        discount_first="50,00", discount_first_days="7", discount_second="20", discount_second_days="0",
    )  # fmt: skip
    assert done.status == 303, done.text[:900]
    schedule_id = done.where.rpartition("/")[2].partition("?")[0]
    made = (await env.merchant.production.get(f"/v1/charge-schedules/{schedule_id}")).body
    assert (made["fine"], made["interest"], made["payable_days_after_due"]) == (
        {"percent": "2.00"}, {"percent_per_month": "1.00"}, 15,
    )  # fmt: skip
    assert made["discounts"] == [
        {"days_before_due": 7, "amount": "50.00"}, {"days_before_due": 0, "amount": "20.00"},
    ]  # fmt: skip
    shown = (await env.owner.opened(done.where)).text
    for each in (f"Desconto de {brl(5000)} até 7 dias antes do vencimento.", f"Desconto de {brl(2000)} no vencimento.",
                 "Multa de 2,00% depois do vencimento.", "Juros de 1,00% ao mês.",
                 "Pode ser pago até 15 dias depois do vencimento."):  # fmt: skip
        assert each in shown, each


@pytest.mark.parametrize(
    ("wrong", "fields"),
    [
        ({"fine": "2,01"}, {"fine"}),
        ({"discount_first": "10"}, {"discount_first_days"}),
        ({"discount_first_days": "3"}, {"discount_first"}),
        ({"discount_first": "10", "discount_first_days": "11"}, {"discount_first_days"}),
        ({"discount_first": "10", "discount_first_days": "3", "discount_second": "5", "discount_second_days": "3"},
         {"discount_second_days"}),
        ({"discount_first": "1000", "discount_first_days": "3"}, {"discount_first"}),
    ],
)  # fmt: skip
async def test_schedule_terms_out_of_bounds_are_refused_beside_their_field(
    env: Environment, wrong: dict[str, str], fields: set[str]
) -> None:
    seen = await env.owner.post(SCHEDULE, on=f"{SCHEDULE}?forma=boleto", **(SCHEDULE_FORM | wrong))
    assert (seen.status, faulty_fields(seen.html)) == (400, fields), seen.text[:900]
    assert '<details class="terms" open>' in seen.html


async def test_a_new_due_date_before_a_discount_day_is_refused_beside_its_field(env: Environment) -> None:
    done = await env.owner.post(
        PAGE, on=f"{PAGE}?forma=boleto", **FORM, discount_first="50", discount_first_until=in_days(6)
    )
    page = done.where.partition("?")[0]
    seen = await env.owner.post(f"{page}/vencimento", on=page, due_date=in_days(5))
    assert (seen.status, faulty_fields(seen.html)) == (400, {"due_date"})
    charge_id = page.rpartition("/")[2]
    assert (await redate(env.merchant.sandbox, in_days(6), charge_id=charge_id)).status == 200
