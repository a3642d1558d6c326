"""The adapter of Cobrancas v2 and the simulated bank agree on the wire of slips, over real HTTP."""

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

from banks.base import Done, NotFound, Refused, Unknown
from banks.cobrancas import INDICATORS
from banks.simulated.slips import Rules
from banks.slips import (
    LINE_MISMATCH,
    NOT_FOUND,
    NUMBER_TAKEN,
    PAID,
    PIX_REFUSED,
    STANDS_AT_BANK,
    WRITTEN_OFF,
    NotYet,
    RegisteredSlip,
    Slip,
    SlipState,
    slip_codes,
)
from domain.br_code import parse_br_code
from runtime.postgres import Pool
from tests.banking import utc_now
from tests.merchant import until_answer
from tests.slip_bank import (
    CONVENIO,
    RunningSlipBank,
    canned_bank,
    new_number,
    new_slip,
    running_slip_bank,
    slip_adapter,
    today,
)

NONE = b""
HTML = (200, b"<html><body>Em manutencao</body></html>")
OLD = timedelta(minutes=45)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool) -> AsyncIterator[RunningSlipBank]:
    async with running_slip_bank(pool) as running:
        yield running


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def bank_is_up(bank: RunningSlipBank) -> None:
    bank.wire.fault = "up"
    bank.slips.quirks = frozenset()
    await bank.books.set_rules(Rules(apply_30_minutes=False, detail_cache_s=0, settle_after_s=0))
    bank.requests.clear()


def count(bank: RunningSlipBank, method: str, path: str) -> int:
    return bank.requests.count(f"{method} /cobrancas/v2/boletos{path}")


async def registered(bank: RunningSlipBank, **fields: Any) -> Slip:
    slip = new_slip(**fields)
    assert isinstance(await bank.adapter().register_slip(slip), Done)
    bank.requests.clear()
    return slip


def line_of(slip: Slip) -> str:
    return slip_codes(slip.number, due_on=slip.due_on, amount_cents=slip.amount_cents)[1]


def detail(slip: Slip, **fields: Any) -> dict[str, Any]:
    """A detail of the real bank, as far as it is read."""
    barcode, line = slip_codes(slip.number, due_on=slip.due_on, amount_cents=slip.amount_cents)
    return {
        "codigoEstadoTituloCobranca": 1, "numeroTituloCedenteCobranca": slip.seu_numero,
        "numeroInscricaoSacadoCobranca": int(slip.payer.document),
        "dataVencimentoTituloCobranca": f"{slip.due_on:%d.%m.%Y}", "valorOriginalTituloCobranca": 123.45,
        "codigoLinhaDigitavel": line, "textoCodigoBarrasTituloCobranca": barcode,
        "dataRegistroTituloCobranca": f"{today() - timedelta(days=2):%d.%m.%Y}", "dataRecebimentoTitulo": "",
        "valorPagoSacado": 0, "codigoCanalPagamento": 0,
    } | fields  # fmt: skip


# What goes well


async def test_a_slip_is_registered_read_redated_and_written_off(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = new_slip(description="Ação nº 7 – parcela 1/3")
    made = await adapter.register_slip(slip)
    barcode, line = slip_codes(slip.number, due_on=slip.due_on, amount_cents=slip.amount_cents)
    assert made == Done(RegisteredSlip(line=line, barcode=barcode, qr_code=None))
    booked = await bank.books.booked(slip.number)
    assert booked is not None
    assert booked.description == "ACAO NO 7 - PARCELA 1/3"
    payer = bank.books.payer(booked)
    assert (payer.name, payer.document) == ("JOAO D AVILA & FILHOS - NO 3", "01234567890")
    assert (payer.street, payer.zip_code) == ("RUA SAO JOSE, 12-A", "01310100")

    state = await adapter.find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert (state.status, state.amount_cents, state.due_on) == ("open", 12345, slip.due_on)
    assert (state.seu_numero, state.line, state.barcode) == (slip.seu_numero, line, barcode)
    assert (state.registered_on, state.paid_cents, state.paid_on) == (today(), 0, None)

    later = slip.due_on + timedelta(days=5)
    assert await adapter.redate_slip(slip.number, later) == Done(None)
    state = await adapter.find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert state.due_on == later
    assert state.line == slip_codes(slip.number, due_on=later, amount_cents=12345)[1]

    assert await adapter.write_off_slip(slip.number) == Done(None)
    assert await adapter.write_off_slip(slip.number) == Done(None)  # however often asked
    state = await adapter.find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert state.status == "written_off"
    redated = await adapter.redate_slip(slip.number, later)
    assert isinstance(redated, Refused)
    assert redated.code == WRITTEN_OFF


async def test_a_payer_without_letters_the_bank_takes_is_registered_all_the_same(bank: RunningSlipBank) -> None:
    payer = new_slip().payer
    odd = {"name": "株式会社", "street": "長い" * 80, "number": "", "city": "東京", "zip_code": "00000001"}
    for document in ("12345678000195", "12ABC34501DE35"):
        fields = {name: getattr(payer, name) for name in payer.__struct_fields__}
        slip = new_slip(payer=type(payer)(**(fields | odd | {"document": document})), description="日本")
        assert isinstance(await bank.adapter().register_slip(slip), Done)


async def test_a_hybrid_slip_carries_a_code_whose_location_tells_the_truth(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = new_slip(hybrid=True)
    made = await adapter.register_slip(slip)
    assert isinstance(made, Done)
    assert made.value.qr_code is not None
    location = parse_br_code(made.value.qr_code)["26-25"]
    assert "/pix/v2/cobv/" in location

    async def told() -> dict[str, Any]:
        async with bank.http.get(f"http://{location}") as answer:
            assert answer.status == 200
            _, payload, _ = (await answer.text()).split(".")
            said: dict[str, Any] = json.loads(urlsafe_b64decode(payload + "=="))
            return said

    payload = await told()
    assert payload["calendario"]["dataDeVencimento"] == slip.due_on.isoformat()
    assert (payload["status"], payload["valor"]["original"]) == ("ATIVA", "123.45")
    assert "devedor" not in payload
    await bank.control("pay", number=slip.number)
    assert (await told())["status"] == "CONCLUIDA"


async def test_a_hybrid_slip_registered_without_its_code_gets_one(bank: RunningSlipBank) -> None:
    bank.slips.quirks = frozenset({"no_qr"})
    slip = new_slip(hybrid=True)
    made = await bank.adapter().register_slip(slip)
    assert isinstance(made, Done)
    assert made.value.qr_code is not None
    assert count(bank, "POST", f"/{slip.number}/gerar-pix") == 1


async def test_a_slip_without_pix_shows_no_code(bank: RunningSlipBank) -> None:
    slip = await registered(bank)
    _, paid = await bank.control("pay", number=slip.number, rail="pix")
    assert paid == {"message": "the slip has no PIX side at the bank"}


# Money


async def test_a_paid_slip_says_how_much_when_and_by_which_way(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = await registered(bank)
    status, paid = await bank.control("pay", line=line_of(slip), amount="124.01")
    assert status == 200
    assert paid["payments"][0]["end_to_end_id"] is None
    state = await adapter.find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert (state.status, state.paid_cents, state.paid_on) == ("paid", 12401, today())
    assert (state.paid_by_pix, state.pix, state.credited_on) == (False, (), today())


async def test_a_hybrid_slip_paid_by_pix_shows_it_in_the_detail(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = await registered(bank, hybrid=True)
    _, paid = await bank.control("pay", number=slip.number, rail="pix")
    state = await adapter.find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert (state.status, state.paid_cents, state.paid_by_pix) == ("paid", 12345, True)
    (pix,) = state.pix
    assert (pix.end_to_end_id, pix.amount_cents) == (paid["payments"][0]["end_to_end_id"], 12345)
    assert state.txid is not None
    assert state.txid.startswith(f"BOLETO{slip.number[3:]}DATA")
    assert state.qr_code is not None
    # It is also among the PIX received, under a txid that is no charge's.
    received = await adapter.received(utc_now() - timedelta(minutes=5), utc_now() + timedelta(seconds=1))
    assert isinstance(received, Done)
    assert [pix.end_to_end_id for pix in received.value if pix.txid == state.txid] == [pix.end_to_end_id]


async def test_every_pix_into_a_slip_is_named_whatever_came_last(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = await registered(bank, hybrid=True)
    sent = []
    for rail, amount in (("pix", "100.00"), ("pix", "23.45"), ("boleto", "1.00")):
        _, paid = await bank.control("pay", number=slip.number, rail=rail, amount=amount, force=True)
        sent += [payment["end_to_end_id"] for payment in paid["payments"]]
    state = await adapter.find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert (state.paid_by_pix, state.paid_cents) == (False, 12445)
    assert [(pix.end_to_end_id, pix.amount_cents) for pix in state.pix] == [(sent[0], 10_000), (sent[1], 2345)]


async def test_money_on_its_way_is_neither_open_nor_paid(bank: RunningSlipBank) -> None:
    await bank.rules(settle_after_s=3600)
    adapter = bank.adapter()
    slip = await registered(bank)
    await bank.control("pay", number=slip.number)
    state = await adapter.find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert (state.status, state.paid_cents) == ("in_between", 0)
    # It is neither written off nor definitely not: the bank decides when the money is there.
    assert isinstance(await adapter.write_off_slip(slip.number), Unknown)
    _, off = await bank.control("slip-call-off", number=slip.number)
    assert off == {"called_off": 1}
    assert await adapter.write_off_slip(slip.number) == Done(None)


async def test_a_paid_slip_is_not_written_off_and_not_redated(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = await registered(bank)
    await bank.control("pay", number=slip.number)
    for answer in (
        await adapter.write_off_slip(slip.number),
        await adapter.redate_slip(slip.number, slip.due_on + timedelta(days=1)),
    ):
        assert isinstance(answer, Refused)
        assert answer.code == PAID


async def test_a_write_off_and_a_payment_at_once_have_one_winner(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slips = [await registered(bank) for _ in range(12)]

    async def write_off(slip: Slip) -> Any:
        return await adapter.write_off_slip(slip.number)

    async def pay(slip: Slip) -> int:
        return (await bank.control("pay", number=slip.number))[0]

    async def race(slip: Slip, pay_first: bool) -> None:
        if pay_first:
            status, written = await asyncio.gather(pay(slip), write_off(slip))
        else:
            written, status = await asyncio.gather(write_off(slip), pay(slip))
        state = await adapter.find_slip(slip.number)
        assert isinstance(state, SlipState)
        if status == 200:
            assert isinstance(written, Refused)
            assert (written.code, state.status) == (PAID, "paid")
        else:
            assert (written, state.status) == (Done(None), "written_off")

    await asyncio.gather(*(race(slip, bool(n % 2)) for n, slip in enumerate(slips)))


async def test_every_paid_slip_of_the_days_is_listed_over_pages_and_strangers_are_not(
    bank: RunningSlipBank, pool: Pool
) -> None:
    adapter = bank.adapter()
    # A day of the past that nothing else in this database has moved on.
    day = today() - timedelta(days=1000 + int(new_number()[-2:]))
    mine = [new_number() for _ in range(400)]  # nine of ten overdue: more than a page of them
    strangers = [f"0009999999{number[10:]}" for number in mine[:5]]
    written_off = [new_number() for _ in range(3)]
    at = utc_now() - timedelta(days=(today() - day).days)
    await pool.execute(
        "INSERT INTO simulated_bank.slip (world, number, seu_numero, amount_cents, issued_on, due_on, payer_sealed,"
        " registered_at, payments, moved_at, written_off_at) SELECT 'production', n, 'A', 12345, $2::date,"
        " $2::date + (row_number() OVER () % 10 = 0)::integer * 5000, '', $3::timestamptz,"
        " CASE WHEN n = ANY($4) THEN 0 ELSE 1 END, $3, CASE WHEN n = ANY($4) THEN $3 END FROM unnest($1::text[]) n",
        mine + strangers + written_off, day, at, written_off,
    )  # fmt: skip
    await pool.execute(
        "INSERT INTO simulated_bank.slip_payment (world, number, rail, amount_cents, paid_at, settles_at, payer_name,"
        " payer_document) SELECT 'production', n, 'boleto', 12300, $2, $2, '', '' FROM unnest($1::text[]) n",
        mine + strangers, at,
    )  # fmt: skip
    bank.requests.clear()
    paid = await adapter.slips_paid(day, day)
    assert isinstance(paid, Done)
    assert sorted(slip.number for slip in paid.value) == sorted(mine)
    assert {(slip.amount_cents, slip.paid_cents, slip.moved_on) for slip in paid.value} == {(12345, 12300, day)}
    everything = await bank.books.closed_page(moved=(day, day), most=1000)
    assert len(everything) == 408
    first = await bank.books.closed_page(moved=(day, day))
    assert len(first) == 301  # a page of 300, and one to see that there is another

    page = {"indicadorSituacao": "B", "agenciaBeneficiario": "452", "contaBeneficiario": "123873"}
    days = {"dataInicioMovimento": f"{day:%d.%m.%Y}", "dataFimMovimento": f"{day:%d.%m.%Y}"}
    heard = await _raw_list(bank, {**page, **days})
    assert (heard[0], len(heard[1]["boletos"])) == (200, 300)
    assert (heard[1]["indicadorContinuidade"], heard[1]["proximoIndice"]) == ("S", 300)


async def test_an_empty_list_is_no_trouble(bank: RunningSlipBank) -> None:
    long_ago = today() - timedelta(days=8000)
    assert await bank.adapter().slips_paid(long_ago, long_ago + timedelta(days=200)) == Done([])
    page = {"indicadorSituacao": "A", "agenciaBeneficiario": "452", "contaBeneficiario": "123873"}
    assert (await _raw_list(bank, page | {"dataFimRegistro": "01.01.2001"}))[0] == 404
    await registered(bank)
    assert (await _raw_list(bank, page))[0] == 200
    assert (await _raw_list(bank, page | {"numeroConvenio": CONVENIO}))[0] == 404  # an unknown parameter
    assert (await _raw_list(bank, {}))[0] == 400


async def _raw_list(bank: RunningSlipBank, query: dict[str, str]) -> tuple[int, Any]:
    token = await bank.adapter()._agreement._transport._token(("cobrancas.boletos-info",))
    async with bank.http.get(
        f"{bank.url}/cobrancas/v2/boletos",
        params={"gw-dev-app-key": "chave-do-app", **query},
        headers={"Authorization": f"Bearer {token}"},
    ) as answer:
        return answer.status, await answer.json()


# A number is used once


async def test_asking_again_registers_once(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = new_slip(hybrid=True)
    first = await adapter.register_slip(slip)
    assert isinstance(first, Done)
    assert await adapter.register_slip(slip) == first
    assert await bank.adapter().register_slip(slip) == first
    await bank.control("pay", number=slip.number)
    assert await adapter.register_slip(slip) == first  # paid meanwhile: registered all the same


@pytest.mark.parametrize(
    "other",
    [
        {"amount_cents": 12346},
        {"due_on": today() + timedelta(days=40)},
        {"seu_numero": "PEDIDO-2"},
        {"payer": new_slip().payer},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_strangers_slip_under_our_number_is_never_taken_for_ours(
    bank: RunningSlipBank, other: dict[str, Any]
) -> None:
    slip = await registered(bank)
    if "payer" in other:
        fields = {name: getattr(slip.payer, name) for name in slip.payer.__struct_fields__}
        other = {"payer": type(slip.payer)(**(fields | {"document": "98765432100"}))}
    again = await bank.adapter().register_slip(new_slip(number=slip.number, **other))
    assert isinstance(again, Refused)
    assert again.code == NUMBER_TAKEN
    booked = await bank.books.booked(slip.number)
    assert booked is not None
    assert booked.amount_cents == 12345


async def test_a_number_stays_used_after_the_write_off(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = await registered(bank)
    await adapter.write_off_slip(slip.number)
    again = await adapter.register_slip(slip)
    assert isinstance(again, Refused)
    assert again.code == WRITTEN_OFF
    other = await adapter.register_slip(new_slip(number=slip.number, amount_cents=1))
    assert isinstance(other, Refused)
    assert other.code == NUMBER_TAKEN


async def test_nothing_is_changed_that_is_not_there(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    number = new_number()
    assert await adapter.find_slip(number) == NotFound()
    for answer in (await adapter.write_off_slip(number), await adapter.redate_slip(number, today())):
        assert isinstance(answer, Refused)
        assert answer.code == NOT_FOUND


# Faults


@pytest.mark.parametrize("fault", ["lost_reply", "cut"])
async def test_a_lost_answer_is_found_out_by_asking(bank: RunningSlipBank, fault: str) -> None:
    adapter = bank.adapter()
    slip = new_slip(hybrid=True)
    bank.wire.fault = fault
    made = await adapter.register_slip(slip)
    assert isinstance(made, Done)
    assert made.value.qr_code is not None
    assert count(bank, "POST", "") == 1  # never sent twice
    later = slip.due_on + timedelta(days=3)
    assert await adapter.redate_slip(slip.number, later) == Done(None)
    assert await adapter.write_off_slip(slip.number) == Done(None)
    assert count(bank, "PATCH", f"/{slip.number}") == 1
    assert count(bank, "POST", f"/{slip.number}/baixar") == 1


@pytest.mark.parametrize("fault", ["down", "timeout_before", "error500", "html"])
async def test_silence_and_nonsense_are_unknown_and_the_next_try_succeeds(bank: RunningSlipBank, fault: str) -> None:
    # Only silence is waited for: as long as a bank that answers never needs, and no longer.
    adapter = bank.adapter(**({"read_s": 0.3, "write_s": 0.3} if fault == "timeout_before" else {}))
    standing = await registered(bank)
    slip = new_slip()
    bank.wire.fault = fault
    assert isinstance(await adapter.register_slip(slip), Unknown)
    assert isinstance(await adapter.redate_slip(standing.number, today() + timedelta(days=30)), Unknown)
    assert isinstance(await adapter.write_off_slip(standing.number), Unknown)
    if fault != "timeout_before":
        assert isinstance(await adapter.find_slip(standing.number), Unknown)
        assert isinstance(await adapter.slips_paid(today(), today()), Unknown)
    bank.wire.fault = "up"
    adapter = bank.adapter()
    assert await adapter.find_slip(slip.number) == NotFound()
    assert isinstance(await adapter.register_slip(slip), Done)
    assert await adapter.write_off_slip(standing.number) == Done(None)


async def test_a_slow_bank_is_unknown_and_what_it_did_is_adopted(
    bank: RunningSlipBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank.wire, "_slow_s", 2.0)
    adapter = bank.adapter(read_s=1.0, write_s=1.0)
    slip = new_slip()
    assert await adapter.find_slip(slip.number) == NotFound()  # with tokens at hand, only what follows is slow
    assert isinstance(await adapter.register_slip(new_slip()), Done)
    bank.wire.fault = "slow"
    assert isinstance(await adapter.register_slip(slip), Unknown)
    bank.wire.fault = "up"

    async def was_done() -> bool:
        return isinstance(await adapter.find_slip(slip.number), SlipState)

    await until_answer(was_done)
    bank.requests.clear()
    assert isinstance(await adapter.register_slip(slip), Done)
    assert count(bank, "GET", f"/{slip.number}") == 1  # adopted


async def test_a_refusal_is_for_good_and_leaves_nothing(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = new_slip()
    bank.wire.fault = "refuse"
    refused = await adapter.register_slip(slip)
    assert isinstance(refused, Refused)
    assert refused.code == "4678420"
    bank.slips.quirks = frozenset({"shape_f"})
    assert await adapter.register_slip(slip) == refused
    assert await adapter.find_slip(slip.number) == NotFound()


async def test_tokens_that_end_in_the_middle_are_renewed(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = new_slip()
    assert isinstance(await adapter.register_slip(slip), Done)
    bank.wire.forget_tokens()
    bank.requests.clear()
    found = await asyncio.gather(*(adapter.find_slip(slip.number) for _ in range(8)))
    assert all(isinstance(each, SlipState) for each in found)
    assert bank.requests.count("POST /oauth/token") == 1
    bank.wire.forget_tokens()
    assert await adapter.write_off_slip(slip.number) == Done(None)


# Rules of the bank


async def test_a_young_slip_is_changed_later(bank: RunningSlipBank, pool: Pool) -> None:
    await bank.rules(apply_30_minutes=True)
    adapter = bank.adapter()
    slip = await registered(bank)
    registered_at = utc_now()
    later = slip.due_on + timedelta(days=1)
    for answer in (
        await adapter.write_off_slip(slip.number, registered_at=registered_at),
        await adapter.redate_slip(slip.number, later, registered_at=registered_at),
    ):
        assert isinstance(answer, NotYet)
        assert answer.retry_at is not None
        assert timedelta(minutes=30) <= answer.retry_at - registered_at <= timedelta(minutes=32)
    assert await adapter.write_off_slip(slip.number) == NotYet(None)  # the detail tells the day only
    await pool.execute(
        "UPDATE simulated_bank.slip SET registered_at = $2 WHERE number = $1", slip.number, utc_now() - OLD
    )
    assert await adapter.redate_slip(slip.number, later, registered_at=registered_at - OLD) == Done(None)
    assert await adapter.write_off_slip(slip.number, registered_at=registered_at - OLD) == Done(None)


async def test_an_old_answer_never_decides_that_nothing_happened(bank: RunningSlipBank) -> None:
    await bank.rules(detail_cache_s=30)
    adapter = bank.adapter(detail_age_s=30.0)
    slip = await registered(bank)
    assert isinstance(await adapter.find_slip(slip.number), SlipState)
    await bank.control("pay", number=slip.number)
    # The bank says no, and shows the slip as open: what it shows is from before.
    old = utc_now() - OLD
    assert isinstance(await adapter.write_off_slip(slip.number, registered_at=old), Unknown)
    bank.slips._shown.clear()  # half a minute passes, here and there
    answer = await bank.adapter(detail_age_s=30.0).write_off_slip(slip.number, registered_at=old)
    assert isinstance(answer, Refused)
    assert answer.code == PAID


async def test_an_old_answer_never_decides_that_it_was_done_either(bank: RunningSlipBank) -> None:
    """There and back again within half a minute: what is shown as wanted is the day before the first change."""
    await bank.rules(detail_cache_s=30)
    adapter = bank.adapter(detail_age_s=30.0)
    slip = await registered(bank)
    assert isinstance(await adapter.find_slip(slip.number), SlipState)
    assert await adapter.redate_slip(slip.number, slip.due_on + timedelta(days=7)) == Done(None)
    for fault in ("refuse", "timeout_before"):
        bank.wire.fault = fault
        assert isinstance(await adapter.redate_slip(slip.number, slip.due_on, registered_at=utc_now() - OLD), Unknown)
        booked = await bank.books.booked(slip.number)
        assert booked is not None
        assert booked.due_on == slip.due_on + timedelta(days=7)
    bank.wire.fault = "up"
    assert await adapter.redate_slip(slip.number, slip.due_on) == Done(None)


async def test_a_change_names_every_indicator_and_one_only(bank: RunningSlipBank) -> None:
    slip = await registered(bank)
    transport = bank.adapter()._agreement._transport
    url = f"{bank.url}/cobrancas/v2/boletos/{slip.number}"
    scopes = ("cobrancas.boletos-requisicao",)
    body = {"numeroConvenio": int(CONVENIO), "indicadorNovaDataVencimento": "S"}
    change = {"alteracaoData": {"novaDataVencimento": f"{slip.due_on + timedelta(days=1):%d.%m.%Y}"}}
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
async def test_the_bank_refuses_what_its_guide_forbids(bank: RunningSlipBank, fault: dict[str, Any]) -> None:
    agreement = bank.adapter()._agreement
    slip = new_slip()
    body = agreement._body(slip) | fault
    heard = await agreement._ask("POST", "", ("cobrancas.boletos-requisicao",), body=body)
    assert not isinstance(heard, Unknown)
    assert heard.status == 400
    (error,) = json.loads(heard.body)["erros"]
    assert error["codigo"]
    assert await bank.books.booked(slip.number) is None


async def test_without_a_good_key_token_or_scope_nobody_gets_in(bank: RunningSlipBank) -> None:
    url = f"{bank.url}/cobrancas/v2/boletos/{new_number()}"
    async with bank.http.get(url, params={"gw-dev-app-key": "chave-do-app"}) as answer:
        assert answer.status == 401
        assert (await answer.json())["statusCode"] == 401
    transport = bank.adapter()._agreement._transport
    heard = await transport.ask("GET", url, ("cob.read",))
    assert not isinstance(heard, Unknown)
    assert heard.status == 403
    transport._app_key = {"gw-dev-app-key": "another"}
    heard = await transport.ask("GET", url, ("cobrancas.boletos-info",))
    assert not isinstance(heard, Unknown)
    assert (heard.status, "userHelp" in json.loads(heard.body)) == (403, True)


# What the real bank may say and the simulated one does not

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
async def test_the_banks_no_is_heard_in_each_of_its_shapes(status: int, shape: Any) -> None:
    async with canned_bank({REGISTER: (status, shape)}) as url, aiohttp.ClientSession() as http:
        assert await slip_adapter(http, url).register_slip(new_slip()) == Refused("4874999", "Nao")


@pytest.mark.parametrize(
    "said",
    [
        (400, C), (401, C), (400, D), (403, E), (400, E), (429, A), (500, A), (500, B), (502, b"Bad Gateway"),
        (503, NONE), (504, NONE), HTML, (404, HTML[1]), (400, HTML[1]), (200, b"{"), (201, b"{}"), (201, b"null"),
        (400, b"[]"), (400, {"erros": []}), (400, {"erros": [{}]}), (400, {"errors": "no"}), (302, NONE),
        (400, b"\xff\xfe"),
    ],
)  # fmt: skip
async def test_whatever_is_not_the_banks_no_is_unknown(said: Any) -> None:
    slip = new_slip()
    one = f"/cobrancas/v2/boletos/{slip.number}"
    async with aiohttp.ClientSession() as http:
        async with canned_bank({REGISTER: said}) as url:
            assert isinstance(await slip_adapter(http, url).register_slip(slip), Unknown)
        old = {f"GET {one}": (200, detail(slip)), f"PATCH {one}": said, f"POST {one}/baixar": said}
        async with canned_bank(old) as url:
            adapter = slip_adapter(http, url)
            assert isinstance(await adapter.redate_slip(slip.number, today()), Unknown)
            assert isinstance(await adapter.write_off_slip(slip.number), Unknown)
        everything = {f"GET {one}": said, "GET /cobrancas/v2/boletos": said}
        async with canned_bank(everything) as url:
            adapter = slip_adapter(http, url)
            assert isinstance(await adapter.find_slip(slip.number), Unknown)
            assert isinstance(await adapter.slips_paid(today(), today()), Unknown)


@pytest.mark.parametrize(
    "said", [(404, NONE), (404, {}), (404, B), (404, A), (400, {"errors": [{"code": "4769515.1"}]})]
)
async def test_not_found_is_heard_in_each_of_its_shapes(said: Any) -> None:
    number = new_number()
    async with aiohttp.ClientSession() as http, canned_bank({f"GET /cobrancas/v2/boletos/{number}": said}) as url:
        assert await slip_adapter(http, url).find_slip(number) == NotFound()


async def test_a_used_number_whose_slip_is_not_shown_yet_is_unknown() -> None:
    used = {"erros": [{"codigo": "4874915", "mensagem": "Nosso Numero ja incluido anteriormente."}]}
    async with aiohttp.ClientSession() as http, canned_bank({REGISTER: (400, used)}) as url:
        assert isinstance(await slip_adapter(http, url).register_slip(new_slip()), Unknown)


async def test_a_refusal_after_a_lost_success_is_no_refusal() -> None:
    slip = new_slip()
    said = {REGISTER: (400, A), f"GET /cobrancas/v2/boletos/{slip.number}": (200, detail(slip))}
    async with aiohttp.ClientSession() as http, canned_bank(said) as url:
        assert isinstance(await slip_adapter(http, url).register_slip(slip), Done)


async def test_another_line_than_ours_blocks_the_slip_and_raises_an_alarm(bank: RunningSlipBank) -> None:
    bank.slips.quirks = frozenset({"wrong_line"})
    slip = new_slip()
    with capture_logs() as logs:
        made = await bank.adapter().register_slip(slip)
    assert isinstance(made, Refused)
    assert made.code == LINE_MISMATCH
    assert made.code in STANDS_AT_BANK
    assert [(log["event"], log["log_level"]) for log in logs] == [("slip_line_mismatch", "error")]
    # An adopted slip is looked at just as closely.
    one = f"GET /cobrancas/v2/boletos/{slip.number}"
    barcode, line = slip_codes(slip.number, due_on=slip.due_on + timedelta(days=1), amount_cents=12345)
    said = {one: (200, detail(slip, codigoLinhaDigitavel=line, textoCodigoBarrasTituloCobranca=barcode))}
    async with canned_bank(said | {REGISTER: (504, NONE)}) as url:
        adopted = await slip_adapter(bank.http, url).register_slip(slip)
    assert isinstance(adopted, Refused)
    assert adopted.code == LINE_MISMATCH


async def test_a_slip_that_gets_no_pix_is_not_passed_off_as_hybrid() -> None:
    slip = new_slip(hybrid=True)
    one = f"/cobrancas/v2/boletos/{slip.number}"
    said: dict[str, Any] = {REGISTER: (504, NONE), f"GET {one}": (200, detail(slip)), f"POST {one}/gerar-pix": (400, A)}
    async with aiohttp.ClientSession() as http, canned_bank(said) as url:
        refused = await slip_adapter(http, url).register_slip(slip)
        assert isinstance(refused, Refused)
        assert refused.code == PIX_REFUSED
        said[f"POST {one}/gerar-pix"] = (504, NONE)
        assert isinstance(await slip_adapter(http, url).register_slip(slip), Unknown)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *((code, "open") for code in (1, 2, 3, 4, 8)),
        *((code, "paid") for code in (6, 10, 11, 12, 16)),
        (7, "written_off"),
        *((code, "in_between") for code in (5, 9, 13, 14, 15, 17, 18, 19, 21, 80, 99)),
    ],
)
async def test_only_what_is_surely_paid_counts_as_paid(code: int, status: str) -> None:
    slip = new_slip()
    said = detail(
        slip, codigoEstadoTituloCobranca=code, valorPagoSacado=12.3, dataRecebimentoTitulo="20.11.2026",
        dataCreditoLiquidacao="00.00.0000", valorJuroMoraRecebido="0.10", codigoCanalPagamento=23,
    )  # fmt: skip
    answers = {f"GET /cobrancas/v2/boletos/{slip.number}": (200, said)}
    async with aiohttp.ClientSession() as http, canned_bank(answers) as url:
        state = await slip_adapter(http, url).find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert state.status == status
    money = (state.paid_cents, state.interest_cents, str(state.paid_on), state.credited_on)
    assert money == ((1230, 10, "2026-11-20", None) if status == "paid" else (0, 0, "None", None))


async def test_paid_without_an_amount_is_not_told_yet() -> None:
    slip = new_slip()
    answers = {f"GET /cobrancas/v2/boletos/{slip.number}": (200, detail(slip, codigoEstadoTituloCobranca=6))}
    async with aiohttp.ClientSession() as http, canned_bank(answers) as url:
        state = await slip_adapter(http, url).find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert state.status == "in_between"


async def test_another_slips_detail_is_not_believed() -> None:
    slip = new_slip()
    for said in (
        detail(new_slip()), detail(slip, valorOriginalTituloCobranca=12.345), detail(slip, codigoLinhaDigitavel="1"),
        detail(slip, valorOriginalTituloCobranca=None), detail(slip, dataVencimentoTituloCobranca=""),
    ):  # fmt: skip
        answers = {f"GET /cobrancas/v2/boletos/{slip.number}": (200, said)}
        async with aiohttp.ClientSession() as http, canned_bank(answers) as url:
            assert isinstance(await slip_adapter(http, url).find_slip(slip.number), Unknown)
