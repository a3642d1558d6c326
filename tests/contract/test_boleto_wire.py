"""The adapter of Cobrancas v2 and the simulated bank agree on the wire format of boletos, over real HTTP."""

import asyncio
import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from banks.banco_do_brasil.agreement import boleto_codes
from banks.banco_do_brasil.cobrancas import INDICATORS
from banks.boletos import (
    LINE_MISMATCH,
    NOT_FOUND,
    NUMBER_TAKEN,
    PAID,
    PIX_REFUSED,
    STANDS_AT_BANK,
    WRITTEN_OFF,
    BoletoState,
    NewBoleto,
    NotYet,
    RegisteredBoleto,
)
from banks.protocol import Done, NotFound, Rejected, Unknown
from banks.simulated.boletos import BoletoRules
from runtime.postgres import Pool
from tests.support.bank_lists import boletos_paid, received
from tests.support.banking import adapter_at, utc_now
from tests.support.boleto_bank import (
    CONVENIO,
    RunningBoletoBank,
    canned_bank,
    detail,
    new_boleto,
    new_number,
    running_boleto_bank,
    today,
)
from tests.support.br_code_reader import parse_br_code
from tests.support.merchant import until_answer

NONE = b""
HTML = (200, b"<html><body>Em manutencao</body></html>")
OLD = timedelta(minutes=45)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool) -> AsyncIterator[RunningBoletoBank]:
    async with running_boleto_bank(pool) as running:
        yield running


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def bank_is_up(bank: RunningBoletoBank) -> None:
    bank.wire.fault = "up"
    bank.boletos.quirks = frozenset()
    await bank.books.set_rules(BoletoRules(apply_30_minutes=False, detail_cache_s=0, settle_after_s=0))
    bank.requests.clear()


def count(bank: RunningBoletoBank, method: str, path: str) -> int:
    return bank.requests.count(f"{method} /cobrancas/v2/boletos{path}")


async def register_boleto_at(bank: RunningBoletoBank, **fields: Any) -> NewBoleto:
    boleto = new_boleto(**fields)
    assert isinstance(await bank.adapter().boletos.register_boleto(boleto), Done)
    bank.requests.clear()
    return boleto


def line_of(boleto: NewBoleto) -> str:
    return boleto_codes(boleto.number, due_on=boleto.due_on, amount_cents=boleto.amount_cents)[1]


# Calls that the bank accepts


async def test_a_boleto_is_registered_read_redated_and_written_off(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = new_boleto(description="Ação nº 7 – parcela 1/3")
    assert await adapter.boletos.register_boleto(boleto) == Done(RegisteredBoleto(qr_code=None))
    barcode, line = boleto_codes(boleto.number, due_on=boleto.due_on, amount_cents=boleto.amount_cents)
    booked = await bank.books.booked(boleto.number)
    assert booked is not None
    assert booked.description == "ACAO NO 7 - PARCELA 1/3"
    payer = bank.books.payer(booked)
    assert (payer.name, payer.document) == ("JOAO D AVILA & FILHOS - NO 3", "01234567890")
    assert (payer.street, payer.zip_code) == ("RUA SAO JOSE, 12-A", "01310100")

    state = await adapter.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.amount_cents, state.due_on) == ("open", 12345, boleto.due_on)
    assert (state.seu_numero, state.line, state.barcode) == (boleto.seu_numero, line, barcode)
    assert (state.registered_on, state.paid_cents, state.paid_on) == (today(), 0, None)

    later = boleto.due_on + timedelta(days=5)
    assert await adapter.boletos.redate_boleto(boleto.number, later) == Done(None)
    state = await adapter.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert state.due_on == later
    assert state.line == boleto_codes(boleto.number, due_on=later, amount_cents=12345)[1]

    assert await adapter.boletos.write_off_boleto(boleto.number) == Done(None)
    assert await adapter.boletos.write_off_boleto(boleto.number) == Done(None)  # a second write-off succeeds too
    state = await adapter.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert state.status == "written_off"
    redated = await adapter.boletos.redate_boleto(boleto.number, later)
    assert isinstance(redated, Rejected)
    assert redated.code == WRITTEN_OFF


async def test_a_payer_without_any_character_the_bank_accepts_is_registered(bank: RunningBoletoBank) -> None:
    payer = new_boleto().payer
    odd = {"name": "株式会社", "street": "長い" * 80, "number": "", "city": "東京", "zip_code": "00000001"}
    for document in ("12345678000195", "12ABC34501DE35"):
        fields = {name: getattr(payer, name) for name in payer.__struct_fields__}
        boleto = new_boleto(payer=type(payer)(**(fields | odd | {"document": document})), description="日本")
        assert isinstance(await bank.adapter().boletos.register_boleto(boleto), Done)


async def test_the_location_of_a_hybrids_qr_code_shows_its_due_date_amount_and_payment(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = new_boleto(hybrid=True)
    made = await adapter.boletos.register_boleto(boleto)
    assert isinstance(made, Done)
    assert made.value.qr_code is not None
    location = parse_br_code(made.value.qr_code)["26-25"]
    assert "/pix/v2/cobv/" in location

    async def location_payload() -> dict[str, Any]:
        async with bank.http.get(f"http://{location}") as answer:
            assert answer.status == 200
            _, payload, _ = (await answer.text()).split(".")
            said: dict[str, Any] = json.loads(urlsafe_b64decode(payload + "=="))
            return said

    payload = await location_payload()
    assert payload["calendario"]["dataDeVencimento"] == boleto.due_on.isoformat()
    assert (payload["status"], payload["valor"]["original"]) == ("ATIVA", "123.45")
    assert "devedor" not in payload
    await bank.control("pay", number=boleto.number)
    assert (await location_payload())["status"] == "CONCLUIDA"


async def test_a_hybrid_boleto_registered_without_a_qr_code_gets_one_by_a_second_call(bank: RunningBoletoBank) -> None:
    bank.boletos.quirks = frozenset({"no_qr"})
    boleto = new_boleto(hybrid=True)
    made = await bank.adapter().boletos.register_boleto(boleto)
    assert isinstance(made, Done)
    assert made.value.qr_code is not None
    assert count(bank, "POST", f"/{boleto.number}/gerar-pix") == 1


async def test_a_boleto_without_pix_cannot_be_paid_by_pix(bank: RunningBoletoBank) -> None:
    boleto = await register_boleto_at(bank)
    _, paid = await bank.control("pay", number=boleto.number, rail="pix")
    assert paid == {"message": "the boleto has no PIX side at the bank"}


# Payments


async def test_a_paid_boletos_detail_shows_amount_day_and_that_it_was_paid_by_line(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto_at(bank)
    status, paid = await bank.control("pay", line=line_of(boleto), amount="124.01")
    assert status == 200
    assert paid["payments"][0]["end_to_end_id"] is None
    state = await adapter.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.paid_cents, state.paid_on) == ("paid", 12401, today())
    assert (state.paid_by_pix, state.pix) == (False, ())


async def test_a_hybrid_boleto_paid_by_pix_shows_the_pix_in_its_detail(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto_at(bank, hybrid=True)
    _, paid = await bank.control("pay", number=boleto.number, rail="pix")
    state = await adapter.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.paid_cents, state.paid_by_pix) == ("paid", 12345, True)
    (pix,) = state.pix
    assert (pix.end_to_end_id, pix.amount_cents) == (paid["payments"][0]["end_to_end_id"], 12345)
    assert state.txid is not None
    assert state.txid.startswith(f"BOLETO{boleto.number[3:]}DATA")
    assert state.qr_code is not None
    # The PIX is also in the list of received PIX, under a txid that belongs to no charge.
    listed = await received(adapter.pix, utc_now() - timedelta(minutes=5), utc_now() + timedelta(seconds=1))
    assert isinstance(listed, Done)
    assert [pix.end_to_end_id for pix in listed.value if pix.txid == state.txid] == [pix.end_to_end_id]


async def test_every_pix_paid_into_a_boleto_is_listed_whichever_payment_came_last(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto_at(bank, hybrid=True)
    sent = []
    for rail, amount in (("pix", "100.00"), ("pix", "23.45"), ("boleto", "1.00")):
        _, paid = await bank.control("pay", number=boleto.number, rail=rail, amount=amount, force=True)
        sent += [payment["end_to_end_id"] for payment in paid["payments"]]
    state = await adapter.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.paid_by_pix, state.paid_cents) == (False, 12445)
    assert [(pix.end_to_end_id, pix.amount_cents) for pix in state.pix] == [(sent[0], 10_000), (sent[1], 2345)]


async def test_a_boleto_whose_payment_has_not_settled_is_in_between(bank: RunningBoletoBank) -> None:
    await bank.rules(settle_after_s=3600)
    adapter = bank.adapter()
    boleto = await register_boleto_at(bank)
    await bank.control("pay", number=boleto.number)
    state = await adapter.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.paid_cents) == ("in_between", 0)
    # The write-off is neither done nor refused: the bank decides when the payment settles.
    assert isinstance(await adapter.boletos.write_off_boleto(boleto.number), Unknown)
    _, off = await bank.control("boleto-call-off", number=boleto.number)
    assert off == {"called_off": 1}
    assert await adapter.boletos.write_off_boleto(boleto.number) == Done(None)


async def test_a_paid_boleto_cannot_be_written_off_or_re_dated(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto_at(bank)
    await bank.control("pay", number=boleto.number)
    for answer in (
        await adapter.boletos.write_off_boleto(boleto.number),
        await adapter.boletos.redate_boleto(boleto.number, boleto.due_on + timedelta(days=1)),
    ):
        assert isinstance(answer, Rejected)
        assert answer.code == PAID


async def test_of_a_concurrent_write_off_and_payment_exactly_one_succeeds(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boletos = [await register_boleto_at(bank) for _ in range(12)]

    async def write_off(boleto: NewBoleto) -> Any:
        return await adapter.boletos.write_off_boleto(boleto.number)

    async def pay(boleto: NewBoleto) -> int:
        return (await bank.control("pay", number=boleto.number))[0]

    async def race(boleto: NewBoleto, pay_first: bool) -> None:
        if pay_first:
            status, written = await asyncio.gather(pay(boleto), write_off(boleto))
        else:
            written, status = await asyncio.gather(write_off(boleto), pay(boleto))
        state = await adapter.boletos.find_boleto(boleto.number)
        assert isinstance(state, BoletoState)
        if status == 200:
            assert isinstance(written, Rejected)
            assert (written.code, state.status) == (PAID, "paid")
        else:
            assert (written, state.status) == (Done(None), "written_off")

    await asyncio.gather(*(race(boleto, bool(n % 2)) for n, boleto in enumerate(boletos)))


async def test_every_paid_boleto_of_our_agreement_is_listed_over_pages_and_no_other(
    bank: RunningBoletoBank, pool: Pool
) -> None:
    adapter = bank.adapter()
    # A past day on which no other boleto in this database has moved.
    day = today() - timedelta(days=1000 + int(new_number()[-2:]))
    mine = [new_number() for _ in range(400)]  # nine of ten overdue: more than a page of them
    strangers = [f"0009999999{number[10:]}" for number in mine[:5]]
    written_off = [new_number() for _ in range(3)]
    at = utc_now() - timedelta(days=(today() - day).days)
    await pool.execute(
        "INSERT INTO simulated_boleto (world, number, seu_numero, amount_cents, issued_on, due_on, payer_sealed,"
        " registered_at, payments, moved_at, written_off_at) SELECT 'production', n, 'A', 12345, $2::date,"
        " $2::date + (row_number() OVER () % 10 = 0)::integer * 5000, '', $3::timestamptz,"
        " CASE WHEN n = ANY($4) THEN 0 ELSE 1 END, $3, CASE WHEN n = ANY($4) THEN $3 END FROM unnest($1::text[]) n",
        mine + strangers + written_off, day, at, written_off,
    )  # fmt: skip
    await pool.execute(
        "INSERT INTO simulated_boleto_payment (world, number, rail, amount_cents, paid_at, settles_at, payer_name,"
        " payer_document) SELECT 'production', n, 'boleto', 12300, $2, $2, '', '' FROM unnest($1::text[]) n",
        mine + strangers, at,
    )  # fmt: skip
    bank.requests.clear()
    paid = await boletos_paid(adapter.boletos, day, day)
    assert isinstance(paid, Done)
    assert sorted(boleto.number for boleto in paid.value) == sorted(mine)
    assert {(boleto.paid_cents, boleto.moved_on) for boleto in paid.value} == {(12300, day)}
    everything = await bank.books.closed_page(moved=(day, day), limit=1000)
    assert len(everything) == 408
    first = await bank.books.closed_page(moved=(day, day))
    assert len(first) == 301  # a page of 300, and one more to see that another page follows

    page = {"indicadorSituacao": "B", "agenciaBeneficiario": "452", "contaBeneficiario": "123873"}
    days = {"dataInicioMovimento": f"{day:%d.%m.%Y}", "dataFimMovimento": f"{day:%d.%m.%Y}"}
    heard = await _raw_list(bank, {**page, **days})
    assert (heard[0], len(heard[1]["boletos"])) == (200, 300)
    assert (heard[1]["indicadorContinuidade"], heard[1]["proximoIndice"]) == ("S", 300)


async def test_an_empty_list_of_paid_boletos_is_done_and_bad_list_queries_are_refused(bank: RunningBoletoBank) -> None:
    long_ago = today() - timedelta(days=8000)
    assert await boletos_paid(bank.adapter().boletos, long_ago, long_ago + timedelta(days=200)) == Done([])
    page = {"indicadorSituacao": "A", "agenciaBeneficiario": "452", "contaBeneficiario": "123873"}
    assert (await _raw_list(bank, page | {"dataFimRegistro": "01.01.2001"}))[0] == 404
    await register_boleto_at(bank)
    assert (await _raw_list(bank, page))[0] == 200
    assert (await _raw_list(bank, page | {"numeroConvenio": CONVENIO}))[0] == 404  # an unknown parameter
    assert (await _raw_list(bank, {}))[0] == 400


async def _raw_list(bank: RunningBoletoBank, query: dict[str, str]) -> tuple[int, Any]:
    token = await bank.adapter().boletos._transport._token(("cobrancas.boletos-info",))
    async with bank.http.get(
        f"{bank.url}/cobrancas/v2/boletos",
        params={"gw-dev-app-key": "chave-do-app", **query},
        headers={"Authorization": f"Bearer {token}"},
    ) as answer:
        return answer.status, await answer.json()


# A nosso numero is used once


async def test_registering_a_boleto_again_registers_it_once(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = new_boleto(hybrid=True)
    first = await adapter.boletos.register_boleto(boleto)
    assert isinstance(first, Done)
    assert await adapter.boletos.register_boleto(boleto) == first
    assert await bank.adapter().boletos.register_boleto(boleto) == first
    await bank.control("pay", number=boleto.number)
    assert await adapter.boletos.register_boleto(boleto) == first  # also after it was paid


@pytest.mark.parametrize(
    "other",
    [
        {"amount_cents": 12346},
        {"due_on": today() + timedelta(days=40)},
        {"seu_numero": "PEDIDO-2"},
        {"payer": new_boleto().payer},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_another_boleto_under_our_number_is_rejected_as_number_taken(
    bank: RunningBoletoBank, other: dict[str, Any]
) -> None:
    boleto = await register_boleto_at(bank)
    if "payer" in other:
        fields = {name: getattr(boleto.payer, name) for name in boleto.payer.__struct_fields__}
        other = {"payer": type(boleto.payer)(**(fields | {"document": "98765432100"}))}
    again = await bank.adapter().boletos.register_boleto(new_boleto(number=boleto.number, **other))
    assert isinstance(again, Rejected)
    assert again.code == NUMBER_TAKEN
    booked = await bank.books.booked(boleto.number)
    assert booked is not None
    assert booked.amount_cents == 12345


async def test_a_number_stays_used_after_the_write_off(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto_at(bank)
    await adapter.boletos.write_off_boleto(boleto.number)
    again = await adapter.boletos.register_boleto(boleto)
    assert isinstance(again, Rejected)
    assert again.code == WRITTEN_OFF
    other = await adapter.boletos.register_boleto(new_boleto(number=boleto.number, amount_cents=1))
    assert isinstance(other, Rejected)
    assert other.code == NUMBER_TAKEN


async def test_an_unregistered_boleto_is_not_found_and_cannot_be_changed(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    number = new_number()
    assert await adapter.boletos.find_boleto(number) == NotFound()
    for answer in (
        await adapter.boletos.write_off_boleto(number),
        await adapter.boletos.redate_boleto(number, today()),
    ):
        assert isinstance(answer, Rejected)
        assert answer.code == NOT_FOUND


# Faults


@pytest.mark.parametrize("fault", ["lost_reply", "cut"])
async def test_after_a_lost_answer_the_adapter_looks_up_the_result_and_sends_once(
    bank: RunningBoletoBank, fault: str
) -> None:
    adapter = bank.adapter()
    boleto = new_boleto(hybrid=True)
    bank.wire.fault = fault
    made = await adapter.boletos.register_boleto(boleto)
    assert isinstance(made, Done)
    assert made.value.qr_code is not None
    assert count(bank, "POST", "") == 1  # never sent twice
    later = boleto.due_on + timedelta(days=3)
    assert await adapter.boletos.redate_boleto(boleto.number, later) == Done(None)
    assert await adapter.boletos.write_off_boleto(boleto.number) == Done(None)
    assert count(bank, "PATCH", f"/{boleto.number}") == 1
    assert count(bank, "POST", f"/{boleto.number}/baixar") == 1


@pytest.mark.parametrize("fault", ["down", "timeout_before", "error500", "html"])
async def test_silence_and_unreadable_answers_are_unknown_and_a_retry_succeeds(
    bank: RunningBoletoBank, fault: str
) -> None:
    # Only silence needs waiting: 0.3 s is longer than an answering bank ever takes here.
    adapter = bank.adapter(**({"read_s": 0.3, "write_s": 0.3} if fault == "timeout_before" else {}))
    standing = await register_boleto_at(bank)
    boleto = new_boleto()
    bank.wire.fault = fault
    assert isinstance(await adapter.boletos.register_boleto(boleto), Unknown)
    assert isinstance(await adapter.boletos.redate_boleto(standing.number, today() + timedelta(days=30)), Unknown)
    assert isinstance(await adapter.boletos.write_off_boleto(standing.number), Unknown)
    if fault != "timeout_before":
        assert isinstance(await adapter.boletos.find_boleto(standing.number), Unknown)
        assert isinstance(await boletos_paid(adapter.boletos, today(), today()), Unknown)
    bank.wire.fault = "up"
    adapter = bank.adapter()
    assert await adapter.boletos.find_boleto(boleto.number) == NotFound()
    assert isinstance(await adapter.boletos.register_boleto(boleto), Done)
    assert await adapter.boletos.write_off_boleto(standing.number) == Done(None)


async def test_an_answer_after_the_timeout_is_unknown_and_the_registered_boleto_is_adopted(
    bank: RunningBoletoBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank.wire, "_slow_s", 2.0)
    adapter = bank.adapter(read_s=1.0, write_s=1.0)
    boleto = new_boleto()
    # Both tokens are fetched first, so that only the calls after this are slow.
    assert await adapter.boletos.find_boleto(boleto.number) == NotFound()
    assert isinstance(await adapter.boletos.register_boleto(new_boleto()), Done)
    bank.wire.fault = "slow"
    assert isinstance(await adapter.boletos.register_boleto(boleto), Unknown)
    bank.wire.fault = "up"

    async def was_done() -> bool:
        return isinstance(await adapter.boletos.find_boleto(boleto.number), BoletoState)

    await until_answer(was_done)
    bank.requests.clear()
    assert isinstance(await adapter.boletos.register_boleto(boleto), Done)
    assert count(bank, "GET", f"/{boleto.number}") == 1  # adopted


async def test_a_refused_registration_is_rejected_and_registers_nothing(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = new_boleto()
    bank.wire.fault = "refuse"
    refused = await adapter.boletos.register_boleto(boleto)
    assert isinstance(refused, Rejected)
    assert refused.code == "4678420"
    bank.boletos.quirks = frozenset({"shape_f"})
    assert await adapter.boletos.register_boleto(boleto) == refused
    assert await adapter.boletos.find_boleto(boleto.number) == NotFound()


async def test_tokens_that_become_invalid_are_renewed_once(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = new_boleto()
    assert isinstance(await adapter.boletos.register_boleto(boleto), Done)
    bank.wire.forget_tokens()
    bank.requests.clear()
    found = await asyncio.gather(*(adapter.boletos.find_boleto(boleto.number) for _ in range(8)))
    assert all(isinstance(each, BoletoState) for each in found)
    assert bank.requests.count("POST /oauth/token") == 1
    bank.wire.forget_tokens()
    assert await adapter.boletos.write_off_boleto(boleto.number) == Done(None)


# Rules of the bank


async def test_a_boleto_younger_than_thirty_minutes_cannot_be_changed_yet(bank: RunningBoletoBank, pool: Pool) -> None:
    await bank.rules(apply_30_minutes=True)
    adapter = bank.adapter()
    boleto = await register_boleto_at(bank)
    registered_at = utc_now()
    later = boleto.due_on + timedelta(days=1)
    for answer in (
        await adapter.boletos.write_off_boleto(boleto.number, registered_at=registered_at),
        await adapter.boletos.redate_boleto(boleto.number, later, registered_at=registered_at),
    ):
        assert isinstance(answer, NotYet)
        assert answer.retry_at is not None
        assert timedelta(minutes=30) <= answer.retry_at - registered_at <= timedelta(minutes=32)
    # The detail shows only the day of registration.
    assert await adapter.boletos.write_off_boleto(boleto.number) == NotYet(None)
    await pool.execute(
        "UPDATE simulated_boleto SET registered_at = $2 WHERE number = $1", boleto.number, utc_now() - OLD
    )
    assert await adapter.boletos.redate_boleto(boleto.number, later, registered_at=registered_at - OLD) == Done(None)
    assert await adapter.boletos.write_off_boleto(boleto.number, registered_at=registered_at - OLD) == Done(None)


async def test_a_cached_detail_never_proves_that_a_change_was_refused(bank: RunningBoletoBank) -> None:
    await bank.rules(detail_cache_s=30)
    adapter = bank.adapter(detail_age_s=30.0, write_s=2.0)
    boleto = await register_boleto_at(bank)
    assert isinstance(await adapter.boletos.find_boleto(boleto.number), BoletoState)
    await bank.control("pay", number=boleto.number)
    # The bank refuses and shows the boleto as open: that detail is a cached one, older than the payment.
    old = utc_now() - OLD
    assert isinstance(await adapter.boletos.write_off_boleto(boleto.number, registered_at=old), Unknown)
    bank.boletos._shown.clear()  # the caches of bank and adapter expire after 30 s
    answer = await bank.adapter(detail_age_s=30.0).boletos.write_off_boleto(boleto.number, registered_at=old)
    assert isinstance(answer, Rejected)
    assert answer.code == PAID


async def test_a_cached_detail_never_proves_that_a_change_was_made(bank: RunningBoletoBank) -> None:
    """Re-dated and back within 30 s: the cached detail shows the wanted day, which is the one of before."""
    await bank.rules(detail_cache_s=30)
    adapter = bank.adapter(detail_age_s=30.0, write_s=2.0)
    boleto = await register_boleto_at(bank)
    assert isinstance(await adapter.boletos.find_boleto(boleto.number), BoletoState)
    assert await adapter.boletos.redate_boleto(boleto.number, boleto.due_on + timedelta(days=7)) == Done(None)
    for fault in ("refuse", "timeout_before"):
        bank.wire.fault = fault
        assert isinstance(
            await adapter.boletos.redate_boleto(boleto.number, boleto.due_on, registered_at=utc_now() - OLD), Unknown
        )
        booked = await bank.books.booked(boleto.number)
        assert booked is not None
        assert booked.due_on == boleto.due_on + timedelta(days=7)
    bank.wire.fault = "up"
    assert await adapter.boletos.redate_boleto(boleto.number, boleto.due_on) == Done(None)


async def test_a_change_must_name_all_18_indicators_and_set_exactly_one(bank: RunningBoletoBank) -> None:
    boleto = await register_boleto_at(bank)
    transport = bank.adapter().boletos._transport
    url = f"{bank.url}/cobrancas/v2/boletos/{boleto.number}"
    scopes = ("cobrancas.boletos-requisicao",)
    body = {"numeroConvenio": int(CONVENIO), "indicadorNovaDataVencimento": "S"}
    change = {"alteracaoData": {"novaDataVencimento": f"{boleto.due_on + timedelta(days=1):%d.%m.%Y}"}}
    every = dict.fromkeys(INDICATORS, "N")
    assert len(every) == 18
    for wrong in (body | change, every | body | change | {"indicadorCobrarMulta": "S"}, every | body):
        heard = await transport.ask("PATCH", url, scopes, body=wrong)
        assert not isinstance(heard, Unknown)
        assert heard.status == 400
        assert list(json.loads(heard.body)) == ["errors"]
    heard = await transport.ask("PATCH", url, scopes, body=every | body | change)
    assert not isinstance(heard, Unknown)
    assert heard.status == 200


@pytest.mark.parametrize(
    "fault",
    [
        {"dataEmissao": "2026-11-21"}, {"dataVencimento": "01.01.2020"}, {"valorOriginal": 0}, {"valorOriginal": -1},
        {"numeroConvenio": 1234567}, {"numeroTituloCliente": "123"}, {"numeroTituloBeneficiario": "pedido"},
        {"campoUtilizacaoBeneficiario": "NF-E 1/7"}, {"codigoTipoTitulo": 3}, {"indicadorAceiteTituloVencido": None},
        {"mensagemBloquetoOcorrencia": "A\nB"}, {"quantidadeDiasProtesto": 2}, {"pagador": None},
        {"multa": {"tipo": 1, "valor": 1, "data": f"{today():%d.%m.%Y}"}},
    ],
    ids=lambda fault: next(iter(fault)),
)  # fmt: skip
async def test_the_bank_refuses_what_its_guide_forbids(bank: RunningBoletoBank, fault: dict[str, Any]) -> None:
    agreement = bank.adapter().boletos
    boleto = new_boleto()
    body = agreement._body(boleto) | fault
    heard = await agreement._transport.ask("POST", agreement._url, ("cobrancas.boletos-requisicao",), body=body)
    assert not isinstance(heard, Unknown)
    assert heard.status == 400
    (error,) = json.loads(heard.body)["erros"]
    assert error["codigo"]
    assert await bank.books.booked(boleto.number) is None


async def test_a_call_without_valid_application_key_token_or_scope_is_refused(bank: RunningBoletoBank) -> None:
    url = f"{bank.url}/cobrancas/v2/boletos/{new_number()}"
    async with bank.http.get(url, params={"gw-dev-app-key": "chave-do-app"}) as answer:
        assert answer.status == 401
        assert (await answer.json())["statusCode"] == 401
    transport = bank.adapter().boletos._transport
    heard = await transport.ask("GET", url, ("cob.read",))
    assert not isinstance(heard, Unknown)
    assert heard.status == 403
    transport._app_key = {"gw-dev-app-key": "another"}
    heard = await transport.ask("GET", url, ("cobrancas.boletos-info",))
    assert not isinstance(heard, Unknown)
    assert (heard.status, "userHelp" in json.loads(heard.body)) == (403, True)


# Answers that the real bank may give and the simulated one does not

A = {"erros": [{"codigo": "4874999", "versao": "1", "mensagem": "Nao", "providencia": "-", "ocorrencia": "-"}]}
B = {"errors": [{"code": "4874999.1", "message": "Nao", "action": "-"}]}
C = {"statusCode": 400, "error": "Bad Request", "message": "Bad", "attributes": {"error": "Bad"}}
D = {"error": "invalid_scope", "error_description": "no"}
E = {"detail": "AppKey invalida", "userHelp": "..."}
F = {"erros": [{"codigoMensagem": "4874999", "textoMensagem": "Nao", "textoProvidencia": "-"}]}
G = {"type": "https://pix.bcb.gov.br/api/v2/error/4874999", "title": "Nao", "status": 400, "detail": "Nao"}
REGISTER = "POST /cobrancas/v2/boletos"


@pytest.mark.parametrize("shape", [A, B, F, G], ids="ABFG")
@pytest.mark.parametrize("status", [400, 422])
async def test_a_refusal_in_each_of_the_banks_shapes_is_rejected(status: int, shape: Any) -> None:
    async with canned_bank({REGISTER: (status, shape)}) as url, aiohttp.ClientSession() as http:
        assert await adapter_at(http, url).boletos.register_boleto(new_boleto()) == Rejected("4874999", "Nao")


@pytest.mark.parametrize(
    "said",
    [
        (400, C), (401, C), (400, D), (403, E), (400, E), (429, A), (500, A), (500, B), (502, b"Bad Gateway"),
        (503, NONE), (504, NONE), HTML, (404, HTML[1]), (400, HTML[1]), (200, b"{"), (201, b"{}"), (201, b"null"),
        (400, b"[]"), (400, {"erros": []}), (400, {"erros": [{}]}), (400, {"errors": "no"}), (302, NONE),
        (400, b"\xff\xfe"),
    ],
)  # fmt: skip
async def test_an_error_that_is_no_refusal_of_the_bank_is_unknown(said: Any) -> None:
    boleto = new_boleto()
    one = f"/cobrancas/v2/boletos/{boleto.number}"
    async with aiohttp.ClientSession() as http:
        async with canned_bank({REGISTER: said}) as url:
            assert isinstance(await adapter_at(http, url).boletos.register_boleto(boleto), Unknown)
        old = {f"GET {one}": (200, detail(boleto)), f"PATCH {one}": said, f"POST {one}/baixar": said}
        async with canned_bank(old) as url:
            adapter = adapter_at(http, url)
            assert isinstance(await adapter.boletos.redate_boleto(boleto.number, today()), Unknown)
            assert isinstance(await adapter.boletos.write_off_boleto(boleto.number), Unknown)
        everything = {f"GET {one}": said, "GET /cobrancas/v2/boletos": said}
        async with canned_bank(everything) as url:
            adapter = adapter_at(http, url)
            assert isinstance(await adapter.boletos.find_boleto(boleto.number), Unknown)
            assert isinstance(await boletos_paid(adapter.boletos, today(), today()), Unknown)


@pytest.mark.parametrize(
    "said", [(404, NONE), (404, {}), (404, B), (404, A), (400, {"errors": [{"code": "4769515.1"}]})]
)
async def test_not_found_is_read_in_each_of_the_banks_shapes(said: Any) -> None:
    number = new_number()
    async with aiohttp.ClientSession() as http, canned_bank({f"GET /cobrancas/v2/boletos/{number}": said}) as url:
        assert await adapter_at(http, url).boletos.find_boleto(number) == NotFound()


async def test_a_refusal_as_used_number_without_a_visible_boleto_is_unknown() -> None:
    used = {"erros": [{"codigo": "4874915", "mensagem": "Nosso Numero ja incluido anteriormente."}]}
    async with aiohttp.ClientSession() as http, canned_bank({REGISTER: (400, used)}) as url:
        assert isinstance(await adapter_at(http, url).boletos.register_boleto(new_boleto()), Unknown)


async def test_a_refused_registration_of_a_boleto_that_is_registered_is_done() -> None:
    boleto = new_boleto()
    said = {REGISTER: (400, A), f"GET /cobrancas/v2/boletos/{boleto.number}": (200, detail(boleto))}
    async with aiohttp.ClientSession() as http, canned_bank(said) as url:
        assert isinstance(await adapter_at(http, url).boletos.register_boleto(boleto), Done)


async def test_a_line_that_differs_from_ours_is_rejected_and_logged_as_error(bank: RunningBoletoBank) -> None:
    bank.boletos.quirks = frozenset({"wrong_line"})
    boleto = new_boleto()
    with capture_logs() as logs:
        made = await bank.adapter().boletos.register_boleto(boleto)
    assert isinstance(made, Rejected)
    assert made.code == LINE_MISMATCH
    assert made.code in STANDS_AT_BANK
    assert [(log["event"], log["log_level"]) for log in logs] == [("boleto_line_mismatch", "error")]
    # The line of an adopted boleto is compared as well.
    one = f"GET /cobrancas/v2/boletos/{boleto.number}"
    barcode, line = boleto_codes(boleto.number, due_on=boleto.due_on + timedelta(days=1), amount_cents=12345)
    said = {one: (200, detail(boleto, codigoLinhaDigitavel=line, textoCodigoBarrasTituloCobranca=barcode))}
    async with canned_bank(said | {REGISTER: (504, NONE)}) as url:
        adopted = await adapter_at(bank.http, url).boletos.register_boleto(boleto)
    assert isinstance(adopted, Rejected)
    assert adopted.code == LINE_MISMATCH


async def test_a_hybrid_boleto_without_a_qr_code_is_never_done() -> None:
    boleto = new_boleto(hybrid=True)
    one = f"/cobrancas/v2/boletos/{boleto.number}"
    said: dict[str, Any] = {
        REGISTER: (504, NONE),
        f"GET {one}": (200, detail(boleto)),
        f"POST {one}/gerar-pix": (400, A),
    }
    async with aiohttp.ClientSession() as http, canned_bank(said) as url:
        refused = await adapter_at(http, url).boletos.register_boleto(boleto)
        assert isinstance(refused, Rejected)
        assert refused.code == PIX_REFUSED
        said[f"POST {one}/gerar-pix"] = (504, NONE)
        assert isinstance(await adapter_at(http, url).boletos.register_boleto(boleto), Unknown)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *((code, "open") for code in (1, 2, 3, 4, 8)),
        *((code, "paid") for code in (6, 10, 11, 12, 16)),
        (7, "written_off"),
        *((code, "in_between") for code in (5, 9, 13, 14, 15, 17, 18, 19, 21, 80, 99)),
    ],
)
async def test_only_states_in_which_the_money_has_settled_count_as_paid(code: int, status: str) -> None:
    boleto = new_boleto()
    said = detail(
        boleto, codigoEstadoTituloCobranca=code, valorPagoSacado=12.3, dataRecebimentoTitulo="20.11.2026",
        dataCreditoLiquidacao=None, valorJuroMoraRecebido="0.10", codigoCanalPagamento=23,
    )  # fmt: skip
    answers = {f"GET /cobrancas/v2/boletos/{boleto.number}": (200, said)}
    async with aiohttp.ClientSession() as http, canned_bank(answers) as url:
        state = await adapter_at(http, url).boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert state.status == status
    money = (state.paid_cents, state.interest_cents, str(state.paid_on))
    assert money == ((1230, 10, "2026-11-20") if status == "paid" else (0, 0, "None"))


async def test_a_paid_boleto_without_an_amount_is_in_between() -> None:
    boleto = new_boleto()
    answers = {f"GET /cobrancas/v2/boletos/{boleto.number}": (200, detail(boleto, codigoEstadoTituloCobranca=6))}
    async with aiohttp.ClientSession() as http, canned_bank(answers) as url:
        state = await adapter_at(http, url).boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert state.status == "in_between"


async def test_a_detail_of_another_boleto_or_with_faulty_values_is_unknown() -> None:
    boleto = new_boleto()
    for said in (
        detail(new_boleto()), detail(boleto, valorOriginalTituloCobranca=12.345),
        detail(boleto, codigoLinhaDigitavel="1"),
        detail(boleto, valorOriginalTituloCobranca=None), detail(boleto, dataVencimentoTituloCobranca=""),
    ):  # fmt: skip
        answers = {f"GET /cobrancas/v2/boletos/{boleto.number}": (200, said)}
        async with aiohttp.ClientSession() as http, canned_bank(answers) as url:
            assert isinstance(await adapter_at(http, url).boletos.find_boleto(boleto.number), Unknown)
