"""Fine, interest and discounts on the wire of Cobrancas v2: requests, and what the bank refuses, computes and shows."""

import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from banks.banco_do_brasil.terms import terms_body
from banks.boletos import BoletoState
from banks.protocol import Done, Unknown
from banks.simulated.boletos import BoletoRules
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import Discount, Fine, Interest, PaymentTerms, days_accepted_late, last_day
from runtime.postgres import Pool
from tests.support.banking import adapter_at
from tests.support.boleto_bank import RunningBoletoBank, canned_bank, new_boleto, running_boleto_bank, today
from tests.support.br_code_reader import parse_br_code

SATURDAY = date(2026, 12, 19)
TERMS = PaymentTerms(fine=Fine(percent_bps=200), interest=Interest(month_bps=100), payable_days=30)


def day(at: date) -> str:
    return f"{at:%d.%m.%Y}"


def discounts(*days: int, **value: int) -> tuple[Discount, ...]:
    return tuple(Discount(until=today() + timedelta(days=each), **value) for each in days)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool) -> AsyncIterator[RunningBoletoBank]:
    async with running_boleto_bank(pool) as running:
        await running.books.set_rules(BoletoRules(apply_30_minutes=False, detail_cache_s=0, settle_after_s=0))
        yield running


def test_terms_are_encoded_in_the_fields_of_cobrancas_v2() -> None:
    terms = PaymentTerms(
        fine=Fine(amount_cents=300), interest=Interest(day_cents=10), payable_days=30,
        discounts=(Discount(until=date(2026, 12, 1), percent_bps=1000),
                   Discount(until=date(2026, 12, 8), percent_bps=550)),
    )  # fmt: skip
    text = msgspec.json.decode(msgspec.json.encode(terms_body(terms, SATURDAY)))
    assert text == {
        "indicadorAceiteTituloVencido": "S",
        # Thirty days after Monday 21 December is Wednesday 20 January: 32 days, counted from Saturday 19.
        "numeroDiasLimiteRecebimento": 32,
        "jurosMora": {"tipo": 1, "valor": 0.1},
        "multa": {"data": "22.12.2026", "tipo": 1, "valor": 3.0},
        "desconto": {"dataExpiracao": "01.12.2026", "tipo": 2, "porcentagem": 10.0},
        "segundoDesconto": {"dataExpiracao": "08.12.2026", "porcentagem": 5.5},
    }


def test_a_boleto_without_fine_or_interest_is_not_accepted_late() -> None:
    assert terms_body(None, SATURDAY) == {"indicadorAceiteTituloVencido": "N"}
    only = PaymentTerms(discounts=discounts(1, amount_cents=5))
    assert terms_body(only, SATURDAY)["indicadorAceiteTituloVencido"] == "N"


@pytest.mark.parametrize("days", range(12))
def test_the_banks_acceptance_ends_on_our_last_day_and_the_fine_begins_before_it(days: int) -> None:
    due = SATURDAY + timedelta(days=days)
    for payable in (2, 3, 10, 30):
        terms = PaymentTerms(fine=Fine(percent_bps=1), payable_days=payable)
        limit = due + timedelta(days=days_accepted_late(terms, due))
        assert limit == last_day(terms, due)
        assert due < effective_due_date(due) + timedelta(days=1) < limit


async def detail_of(bank: RunningBoletoBank, number: str) -> dict[str, Any]:
    cobrancas = bank.adapter().boletos
    heard = await cobrancas._transport.ask(
        "GET", f"{cobrancas._url}/{number}", ("cobrancas.boletos-info",), query={"numeroConvenio": "3128557"}
    )
    assert not isinstance(heard, Unknown)
    found: dict[str, Any] = json.loads(heard.body)
    return found


async def test_the_bank_shows_registered_terms_and_the_discount_fine_and_interest_of_a_payment(
    bank: RunningBoletoBank,
) -> None:
    boleto = new_boleto(
        amount_cents=10_000, terms=PaymentTerms(fine=TERMS.fine, interest=TERMS.interest, payable_days=30,
                                                discounts=discounts(2, 4, amount_cents=500))
    )  # fmt: skip
    assert isinstance(await bank.adapter().boletos.register_boleto(boleto), Done)
    begins = effective_due_date(boleto.due_on) + timedelta(days=1)
    shown = await detail_of(bank, boleto.number)
    wanted = {
        "codigoTipoMulta": 2, "percentualMultaTitulo": 2.0, "dataMultaTitulo": day(begins), "codigoTipoJuroMora": 2,
        "percentualJuroMoraTitulo": 1.0, "codigoDescontoTitulo": 1, "valorDescontoTitulo": 5.0,
        "dataDescontoTitulo": day(today() + timedelta(days=2)), "valorAtualTituloCobranca": 95.0,
        "dataLimiteRecebimentoTitulo": day(last_day(TERMS, boleto.due_on)),
    }  # fmt: skip
    assert wanted.items() <= shown.items()
    status, _ = await bank.control("pay", number=boleto.number)
    assert status == 200
    state = await bank.adapter().boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.paid_cents, state.discount_cents, state.fine_cents, state.interest_cents) == (9_500, 500, 0, 0)


async def test_the_payload_of_a_hybrids_location_states_todays_amount(bank: RunningBoletoBank) -> None:
    boleto = new_boleto(amount_cents=10_000, hybrid=True, terms=PaymentTerms(
        fine=TERMS.fine, payable_days=30, discounts=discounts(5, percent_bps=1000)))  # fmt: skip
    made = await bank.adapter().boletos.register_boleto(boleto)
    assert isinstance(made, Done)
    assert made.value.qr_code is not None
    location = parse_br_code(made.value.qr_code)["26-25"]
    async with bank.http.get(f"http://{location}") as answer:
        _, payload, _ = (await answer.text()).split(".")
    qr_payload = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert qr_payload["valor"] == {"original": "100.00", "desconto": "10.00", "final": "90.00"}
    effective = effective_due_date(boleto.due_on)
    assert qr_payload["calendario"]["validadeAposVencimento"] == (last_day(TERMS, boleto.due_on) - effective).days


@pytest.mark.parametrize(
    "fault",
    [
        {"multa": {"tipo": 2, "porcentagem": 2, "data": day(today() + timedelta(days=10))}},  # the due date itself
        {"multa": {"tipo": 2, "porcentagem": 2, "data": day(today() + timedelta(days=90))}},  # after the last day
        {"multa": {"tipo": 2, "valor": 2, "data": day(today() + timedelta(days=12))}},
        {"multa": {"tipo": 9}},
        {"jurosMora": {"tipo": 1}},
        {"jurosMora": {"tipo": "1", "valor": 1}},
        {"desconto": {"tipo": 1, "valor": 123.45, "dataExpiracao": day(today())}},
        # Two days after the due date: one, counted before midnight, is the due date itself after it.
        {"desconto": {"tipo": 1, "valor": 1, "dataExpiracao": day(today() + timedelta(days=12))}},
        {"desconto": {"tipo": 2, "porcentagem": 5}},
        {"segundoDesconto": {"valor": 1, "dataExpiracao": day(today())}},
        {"desconto": {"tipo": 1, "valor": 1, "dataExpiracao": day(today() + timedelta(days=3))},
         "segundoDesconto": {"valor": 1, "dataExpiracao": day(today() + timedelta(days=3))}},
        {"numeroDiasLimiteRecebimento": -1},
    ],
)  # fmt: skip
async def test_the_bank_refuses_terms_that_its_guide_forbids(bank: RunningBoletoBank, fault: dict[str, Any]) -> None:
    cobrancas = bank.adapter().boletos
    boleto = new_boleto(terms=TERMS)
    body = cobrancas._body(boleto) | fault
    heard = await cobrancas._transport.ask("POST", cobrancas._url, ("cobrancas.boletos-requisicao",), body=body)
    assert not isinstance(heard, Unknown)
    assert heard.status == 400, heard.body
    assert await bank.books.booked(boleto.number) is None


async def test_a_new_due_date_moves_limit_and_fine_by_one_call_each(bank: RunningBoletoBank) -> None:
    boleto = new_boleto(terms=TERMS)
    adapter = bank.adapter()
    assert isinstance(await adapter.boletos.register_boleto(boleto), Done)
    bank.requests.clear()
    later = boleto.due_on + timedelta(days=60)
    assert await adapter.boletos.redate_boleto(boleto.number, later, terms=TERMS) == Done(None)
    assert bank.requests == [f"PATCH /cobrancas/v2/boletos/{boleto.number}"] * 3
    booked = await bank.books.booked(boleto.number)
    assert booked is not None
    assert booked.fine_from == effective_due_date(later) + timedelta(days=1)
    assert booked.last_day == last_day(TERMS, later)


async def test_a_new_due_date_whose_fine_was_not_moved_is_unknown_and_succeeds_on_retry() -> None:
    boleto = new_boleto(terms=TERMS)
    done = (200, {"numeroContratoCobranca": 1})
    answers = {f"PATCH /cobrancas/v2/boletos/{boleto.number}": [done, done, (502, b"Bad Gateway"), done]}
    async with canned_bank(answers) as url, aiohttp.ClientSession() as http:
        boletos = adapter_at(http, url).boletos
        later = boleto.due_on + timedelta(days=60)
        assert isinstance(await boletos.redate_boleto(boleto.number, later, terms=TERMS), Unknown)
        assert await boletos.redate_boleto(boleto.number, later, terms=TERMS) == Done(None)
