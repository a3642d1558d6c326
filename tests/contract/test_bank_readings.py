"""Answers of the bank that deviate from its guide are read as the bank meant them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from banks.banco_do_brasil import transport
from banks.banco_do_brasil.adapter import BancoDoBrasil
from banks.banco_do_brasil.agreement import boleto_codes
from banks.banco_do_brasil.callbacks import boleto_hints, pix_hints
from banks.boletos import BoletoState
from banks.lists import FIRST_PAGE_AGAIN, TooWide
from banks.protocol import Cob, CobState, Done, Location, Rejected, Unknown
from banks.transfers import Return, Transfer
from domain.boleto.terms import Fine, PaymentTerms
from domain.pix.br_code import dynamic_br_code
from tests.support.banking import adapter_at
from tests.support.boleto_bank import canned_bank, detail, new_boleto, new_number, today

TXID = "a" * 32
COB = f"/pix/v2/cob/{TXID}"
NO = {"errors": [{"code": "4874999.1", "message": "Nao", "action": "-"}]}
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@asynccontextmanager
async def bank_answering(answers: dict[str, Any], **options: Any) -> AsyncIterator[BancoDoBrasil]:
    async with aiohttp.ClientSession() as http, canned_bank(answers) as url:
        yield adapter_at(http, url, **options)


def cob(**fields: Any) -> dict[str, Any]:
    said = {
        "txid": TXID, "revisao": 0, "status": "ATIVA", "chave": "k", "valor": {"original": "1.00"},
        "calendario": {"criacao": "2026-11-20T12:00:00Z", "expiracao": 3600}, "loc": {"id": 7},
    }  # fmt: skip
    return said | fields


ASKED = Cob(txid=TXID, amount_cents=100, created_at=NOW, expires_in_s=3600, location_id=7, pix_key="k")


class _Token(msgspec.Struct):
    expires_in: Any
    access_token: str = "t"
    token_type: str = "Bearer"


# Numbers as text


@pytest.mark.parametrize("lifetime", ["600", 30, 0, -1, None, msgspec.UNSET])
async def test_a_token_serves_several_calls_whatever_lifetime_the_bank_gives_it(lifetime: Any) -> None:
    tokens = [(200, _Token(lifetime)), (503, b""), (503, b"")]
    async with bank_answering({"POST /oauth/token": tokens, f"GET {COB}": (200, cob())}) as bank:
        for _ in range(2):
            assert isinstance(await bank.pix.get_cob(TXID), CobState)
    assert len(tokens) == 2, "it was renewed"


async def test_a_token_serves_until_it_ends_whatever_becomes_of_its_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bank may answer everything but requests for tokens, which another host of it takes."""
    tokens: list[Any] = [(200, _Token(60)), (429, b"", {"Retry-After": "60"}), (503, b""), (503, b"")]
    async with bank_answering({"POST /oauth/token": tokens, f"GET {COB}": (200, cob())}) as bank:
        assert isinstance(await bank.pix.get_cob(TXID), CobState)
        held = bank.pix._transport._tokens

        def be_due() -> None:
            held.update({scopes: replace(token, renew_at=0.0) for scopes, token in held.items()})

        monkeypatch.setattr(transport, "_RENEW_AGAIN_S", 60.0)
        for left in (2, 1):
            be_due()
            for _ in range(2):  # the second without another renewal
                assert isinstance(await bank.pix.get_cob(TXID), CobState)
            assert len(tokens) == left
        be_due()
        silent, renew = asyncio.Event(), bank.pix._transport._renew

        async def renew_slowly(scopes: tuple[str, ...]) -> str | Unknown:
            await silent.wait()
            return await renew(scopes)

        monkeypatch.setattr(bank.pix._transport, "_renew", renew_slowly)
        renewing = asyncio.create_task(bank.pix.get_cob(TXID))
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            assert isinstance(await bank.pix.get_cob(TXID), CobState)
        assert not renewing.done()
        silent.set()
        assert isinstance(await renewing, CobState)


async def test_a_page_count_given_as_text_leads_to_the_next_page() -> None:
    item = {"endToEndId": "E1", "txid": TXID, "valor": "1.00", "horario": "2026-11-20T12:00:00Z"}
    listed = {"parametros": {"paginacao": {"paginaAtual": "0", "quantidadeDePaginas": "3"}}, "pix": [item]}
    async with bank_answering({"GET /pix/v2/pix": (200, listed)}) as bank:
        page = await bank.pix.received_page(NOW - timedelta(hours=1), NOW)
    assert isinstance(page, Done)
    assert (len(page.value.items), page.value.following, page.value.pages) == (1, "1", 3)


async def test_the_first_page_in_place_of_a_later_one_asks_for_a_shorter_interval() -> None:
    """The bank ignores parameters that it does not know: the money of all later pages would be passed over."""
    first = (200, {"parametros": {"paginacao": {"paginaAtual": 0, "quantidadeDePaginas": 3}}})
    async with bank_answering({"GET /pix/v2/pix": first, "GET /transfers/v1/transferencia": first}) as bank:
        assert await bank.pix.received_page(NOW - timedelta(hours=1), NOW, "1") == FIRST_PAGE_AGAIN
        assert await bank.transfers.sent_page(NOW - timedelta(hours=1), NOW, "1") == FIRST_PAGE_AGAIN


async def test_a_cob_whose_numbers_are_text_is_matched_to_the_request() -> None:
    said = cob(revisao="0", loc={"id": "7", "location": "pix.example.com/7"})
    async with bank_answering({f"PUT {COB}": (201, said)}) as bank:
        assert isinstance(await bank.pix.put_cob(ASKED), Done)
    async with bank_answering({f"PUT {COB}": (201, said | {"loc": {"id": "8"}})}) as bank:
        assert isinstance(await bank.pix.put_cob(ASKED), Unknown)
    async with bank_answering({"POST /pix/v2/loc": (201, {"id": "7", "location": "pix.example.com/7"})}) as bank:
        assert await bank.pix.create_locations(1) == Done([Location(7, "pix.example.com/7")])


@pytest.mark.parametrize(
    "location", ["", "https://pix.example.com/7", "pix.example.com/\u00e9", "pix.example.com/ 7", "a" * 78]
)
async def test_a_location_that_no_br_code_can_carry_is_not_taken(location: str) -> None:
    """Each creation of a charge would fail that takes one from the pool."""
    async with bank_answering({"POST /pix/v2/loc": (201, {"id": 7, "location": location})}) as bank:
        assert await bank.pix.create_locations(1) == Unknown("unreadable location")


@pytest.mark.parametrize("absent", ["", "00.00.0000", "01.01.0001", "31.12.9999"])
async def test_a_day_that_stands_for_none_is_read_as_none(absent: str) -> None:
    """Of a boleto paid by PIX, whose payments are listed by the day of payment."""
    boleto = new_boleto()
    one = f"/cobrancas/v2/boletos/{boleto.number}"
    said = detail(
        boleto, codigoEstadoTituloCobranca=6, valorPagoSacado=123.45, codigoCanalPagamento=61,
        dataRecebimentoTitulo=absent,
    )  # fmt: skip
    answers = {f"GET {one}": (200, said), f"GET {one}/pix": (200, {"qrCode": {"txId": "BOLETO1"}})}
    async with bank_answering(answers) as bank:
        state = await bank.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.paid_cents, state.paid_on) == (12345, None)


async def test_a_boleto_whose_numbers_are_text_is_read_and_listed() -> None:
    boleto = new_boleto()
    one = f"/cobrancas/v2/boletos/{boleto.number}"
    item = {
        "numeroBoletoBB": boleto.number, "codigoEstadoTituloCobranca": "6", "dataVencimento": "20.11.2026",
        "dataMovimento": "20.11.2026", "valorOriginal": "123.45", "valorPago": "123.45",
    }  # fmt: skip
    without_terms = item | {"dataVencimento": "00.00.0000", "valorOriginal": None}  # which nothing asks of a list
    listed = {"indicadorContinuidade": "S", "proximoIndice": "300", "boletos": [item, without_terms]}
    said = detail(boleto, codigoEstadoTituloCobranca="1", quantidadeDiaPrazoLimiteRecebimento="30")
    async with bank_answering({f"GET {one}": (200, said), "GET /cobrancas/v2/boletos": (200, listed)}) as bank:
        state = await bank.boletos.find_boleto(boleto.number)
        page = await bank.boletos.paid_page(today(), today())
    assert isinstance(state, BoletoState)
    assert (state.status, state.late_days) == ("open", 30)
    assert isinstance(page, Done)
    assert ([each.paid_cents for each in page.value.items], page.value.following) == ([12345, 12345], "N:300")


# Nulls in place of missing values


NOTHING_YET = {
    "dataMultaTitulo": None, "quantidadeDiaPrazoLimiteRecebimento": None, "dataRecebimentoTitulo": None,
    "dataCreditoLiquidacao": None, "valorPagoSacado": None, "valorJuroMoraRecebido": None, "valorMultaRecebido": None,
    "valorDescontoUtilizado": None, "codigoCanalPagamento": None,
}  # fmt: skip


async def test_a_boleto_detail_with_nulls_is_read_as_open_paid_or_in_between() -> None:
    """If the detail were unreadable, the payment would be looked up for ever and never booked."""
    boleto = new_boleto()
    one = f"GET /cobrancas/v2/boletos/{boleto.number}"
    async with bank_answering({one: (200, detail(boleto, **NOTHING_YET))}) as bank:
        state = await bank.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.paid_cents, state.fine_from, state.late_days) == ("open", 0, None, 0)
    paid = {"codigoEstadoTituloCobranca": 6, "valorPagoSacado": 123.45, "dataRecebimentoTitulo": f"{today():%d.%m.%Y}"}
    async with bank_answering({one: (200, detail(boleto, **NOTHING_YET | paid))}) as bank:
        state = await bank.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.paid_cents, state.paid_on) == ("paid", 12345, today())
    async with bank_answering({one: (200, detail(boleto, **NOTHING_YET | {"codigoEstadoTituloCobranca": 6}))}) as bank:
        state = await bank.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.paid_cents) == ("in_between", 0), "paid, but the amount is not stated yet"


@pytest.mark.parametrize("boletos", [[], None])
async def test_a_list_whose_continuation_is_null_ends(boletos: Any) -> None:
    listed = {"indicadorContinuidade": None, "proximoIndice": None, "boletos": boletos}
    async with bank_answering({"GET /cobrancas/v2/boletos": (200, listed)}) as bank:
        page = await bank.boletos.paid_page(today(), today(), "S:0")
    assert isinstance(page, Done)
    assert (page.value.items, page.value.following) == ([], None)


@pytest.mark.parametrize("said", [{}, {"mensagem": "Servico em manutencao"}, {"parametros": None, "pix": None}])
async def test_an_answer_that_is_no_list_is_unknown_and_not_an_empty_list(said: Any) -> None:
    """The reconciler and its gauge would move past an interval that was never read."""
    async with bank_answering({"GET /pix/v2/pix": (200, said)}) as bank:
        assert isinstance(await bank.pix.received_page(NOW - timedelta(hours=1), NOW), Unknown)
        assert isinstance(await bank.pix.received_of("BOLETO1", NOW.date()), Unknown)


@pytest.mark.parametrize("cut", [r"\ud83d", r"\ude00", r"a\uD83D\ud83d\ude00"])
async def test_a_payers_text_that_is_cut_within_an_emoji_makes_nothing_else_unreadable(cut: str) -> None:
    """The whole page is no JSON then, and the reconciler would ask for it again and again."""
    pix = [{"endToEndId": f"E{n}", "txid": TXID, "valor": "1.00", "horario": "2026-11-20T12:00:00Z"} for n in range(2)]
    cut_pix = [pix[0] | {"pagador": {"nome": "CUT"}}, pix[1]]

    def written(said: Any) -> bytes:
        return msgspec.json.encode(said).replace(b"CUT", cut.encode())

    listed, charge = (200, written({"parametros": {}, "pix": cut_pix})), (200, written(cob(pix=cut_pix)))
    async with bank_answering({"GET /pix/v2/pix": listed, f"GET {COB}": charge}) as bank:
        page = await bank.pix.received_page(NOW - timedelta(hours=1), NOW)
        state = await bank.pix.get_cob(TXID)
    assert isinstance(page, Done)
    assert isinstance(state, CobState)
    assert [each.end_to_end_id for each in page.value.items] == ["E0", "E1"]
    assert page.value.items == state.received
    assert "\ufffd" in (page.value.items[0].payer_name or "")
    assert pix_hints(written({"pix": cut_pix})) == {"E0": TXID, "E1": TXID}


@pytest.mark.parametrize(
    ("status", "readable"),
    [
        ("DEVOLVIDO", True),
        ("EM_PROCESSAMENTO", True),
        ("NAO_REALIZADO", True),
        ("DEVOLVIDA", False),
        ("devolvido", False),
    ],
)
async def test_a_return_in_an_unknown_state_is_set_aside_beside_its_pix(status: str, readable: bool) -> None:
    """Taken for one that is not completed, money that is gone would stay in the wallet without a word."""
    back = {"id": "D1", "valor": "1.00", "status": status}
    item = {"endToEndId": "E1", "valor": "1.00", "horario": "2026-11-20T12:00:00Z", "devolucoes": [back]}
    async with bank_answering({"GET /pix/v2/pix": (200, {"parametros": {}, "pix": [item]})}) as bank:
        page = await bank.pix.received_page(NOW - timedelta(hours=1), NOW)
    assert isinstance(page, Done)
    assert [len(each.returned) for each in page.value.items] == [1 if status == "DEVOLVIDO" else 0]
    assert [each.about for each in page.value.unreadable] == ([] if readable else ["E1"])


async def test_a_list_larger_than_is_read_is_too_wide() -> None:
    """As Unknown it would be asked for again and again, with the same interval."""
    large = (200, b" " * (3 << 20))
    lists = ("/pix/v2/pix", "/cobrancas/v2/boletos", "/transfers/v1/transferencia")
    async with bank_answering({f"GET {path}": large for path in lists}) as bank:
        assert isinstance(await bank.pix.received_page(NOW - timedelta(hours=1), NOW), TooWide)
        assert isinstance(await bank.boletos.paid_page(today(), today()), TooWide)
        assert isinstance(await bank.transfers.sent_page(NOW - timedelta(hours=1), NOW), TooWide)


@pytest.mark.parametrize(
    "said",
    [
        {"parametros": {}},
        {"parametros": {}, "pix": None},
        {"pix": []},
        {"parametros": {"paginacao": None}, "pix": []},
        {"parametros": {"paginacao": {"quantidadeDePaginas": None}}, "pix": []},
    ],
)
async def test_an_empty_list_is_read_as_an_empty_list(said: Any) -> None:
    async with bank_answering({"GET /pix/v2/pix": (200, said)}) as bank:
        page = await bank.pix.received_page(NOW - timedelta(hours=1), NOW)
    assert isinstance(page, Done)
    assert (page.value.items, page.value.following) == ([], None)


@pytest.mark.parametrize("following", [None, 0, 300])
async def test_a_list_that_continues_without_a_next_index_continues_after_the_items_read(following: int | None) -> None:
    """If this were read as the list's end, later payments would be booked from callbacks only."""
    item = {"numeroBoletoBB": "other"}
    listed = {"indicadorContinuidade": "S", "proximoIndice": following, "boletos": [item, item]}
    async with bank_answering({"GET /cobrancas/v2/boletos": (200, listed)}) as bank:
        page = await bank.boletos.paid_page(today(), today(), "S:300")
    assert isinstance(page, Done)
    assert page.value.following == "S:302"


# QR Codes


async def test_a_boletos_qr_code_with_a_wrong_checksum_is_not_passed_on() -> None:
    """No payer's app accepts such a code: the boleto could be paid by its line only."""
    right = dynamic_br_code(location="pix.example.com/qr/v2/7", amount_cents=12345, name="Loja", city="Recife")
    boleto = new_boleto(hybrid=True)
    barcode, line = boleto_codes(boleto.number, due_on=boleto.due_on, amount_cents=boleto.amount_cents)
    made = {"numero": boleto.number, "linhaDigitavel": line, "codigoBarraNumerico": barcode}
    path, key = "/cobrancas/v2/boletos", "qrCode"
    lower, wrong = right[:-4] + right[-4:].lower(), right.replace("123.45", "923.45")
    for emv, wanted in ((right, right), (lower, lower), (wrong, None)):
        with_qr_code = {key: {"url": "", "txId": "", "emv": emv}}
        answers = {
            f"POST {path}": (201, made | with_qr_code), f"GET {path}/{boleto.number}/pix": (200, with_qr_code),
            f"POST {path}/{boleto.number}/gerar-pix": (200, with_qr_code),
        }  # fmt: skip
        async with bank_answering(answers) as bank:
            answer = await bank.boletos.register_boleto(boleto)
        if wanted is None:
            assert isinstance(answer, Unknown)
        else:
            assert isinstance(answer, Done)
            assert answer.value.qr_code == wanted


# Callbacks about boletos


@pytest.mark.parametrize("shape", ['[{"id": "%s"}]', '{"id": "%s"}', '[{"id ": "%s "}]', '{"id": "%s", "pix": null}'])
def test_a_callback_with_one_boleto_is_read_alone_or_in_a_list(shape: str) -> None:
    number = new_number()
    assert list(boleto_hints((shape % number).encode()).values()) == [number]


# Removed and expired charges


REFUSED = (400, {"type": "https://pix.bcb.gov.br/api/v2/error/CobOperacaoInvalida", "title": "x", "detail": "Nao"})


@pytest.mark.parametrize("status", ["REMOVIDA_PELO_PSP", "REMOVIDA_PELO_USUARIO_RECEBEDOR"])
@pytest.mark.parametrize("said", [(504, b""), REFUSED, "as it is"], ids=["silence", "a no", "as it is"])
async def test_a_cob_that_was_removed_by_us_or_by_the_bank_is_not_taken_as_registered(status: str, said: Any) -> None:
    there = (200, cob(status=status))
    async with bank_answering({f"PUT {COB}": there if said == "as it is" else said, f"GET {COB}": there}) as bank:
        answer = await bank.pix.put_cob(ASKED)
    assert isinstance(answer, Rejected)
    assert answer.code == "CobOperacaoInvalida"


async def test_a_refused_removal_is_retried_only_until_the_cob_has_expired() -> None:
    """An expired cob stays ATIVA at the bank, and the bank may refuse every change of it."""
    answers = {f"PATCH {COB}": REFUSED, f"GET {COB}": (200, cob())}
    ends = NOW + timedelta(hours=1)
    async with bank_answering(answers, now=lambda: ends - timedelta(seconds=5)) as bank:
        assert isinstance(await bank.pix.remove_cob(TXID), Unknown)
    async with bank_answering(answers, now=lambda: ends + timedelta(minutes=5)) as bank:
        assert await bank.pix.remove_cob(TXID) == Rejected("CobOperacaoInvalida", "Nao")
    async with bank_answering(answers | {f"PATCH {COB}": (503, b"")}, now=lambda: ends + timedelta(minutes=5)) as bank:
        assert isinstance(await bank.pix.remove_cob(TXID), Unknown)
    for calendar in ({"criacao": None, "expiracao": 3600}, {"criacao": "2026-11-20T12:00:00Z", "expiracao": "muito"}):
        unreadable_calendar = {f"GET {COB}": (200, cob(calendario=calendar))}
        async with bank_answering(answers | unreadable_calendar, now=lambda: ends + timedelta(days=9)) as bank:
            assert isinstance(await bank.pix.remove_cob(TXID), Unknown)


async def test_a_refused_removal_of_a_cobv_is_retried_until_its_last_day_has_passed() -> None:
    """Due on the Saturday before Carnival and accepted two days longer, it can be paid until the Friday after."""
    cobv = cob(calendario={"dataDeVencimento": "2026-02-14", "validadeAposVencimento": 2})
    answers = {
        f"PATCH /pix/v2/cobv/{TXID}": REFUSED, f"GET /pix/v2/cobv/{TXID}": (200, cobv),
    }  # fmt: skip
    async with bank_answering(answers, now=lambda: datetime(2026, 2, 20, 23, tzinfo=UTC)) as bank:
        assert isinstance(await bank.cobvs.remove_cobv(TXID), Unknown)
    async with bank_answering(answers, now=lambda: datetime(2026, 3, 1, tzinfo=UTC)) as bank:
        assert isinstance(await bank.cobvs.remove_cobv(TXID), Rejected)


# Rate limits of the bank


def let_pass(bank: BancoDoBrasil, seconds: float) -> None:
    """Move the times at which the bank wants to be asked again as if these seconds had passed."""
    retry_at = bank.pix._transport._retry_at
    retry_at.update({scopes: at - seconds for scopes, at in retry_at.items()})


async def test_after_a_429_the_bank_is_not_called_until_retry_after_has_passed() -> None:
    wait = (429, b"", {"Retry-After": "60"})
    answers = {f"GET {COB}": [wait, (200, cob())], f"PATCH {COB}": (200, cob(status="REMOVIDA_PELO_USUARIO_RECEBEDOR"))}
    async with bank_answering(answers) as bank:
        for _ in range(3):
            assert await bank.pix.get_cob(TXID) == Unknown("HTTP 429")
        assert len(answers[f"GET {COB}"]) == 1, "it was asked once"
        assert await bank.pix.remove_cob(TXID) == Unknown("HTTP 429"), "no other call of this API is made either"
        let_pass(bank, 60)
        assert isinstance(await bank.pix.get_cob(TXID), CobState)


async def test_a_call_is_made_again_when_the_bank_said_that_is_within_seconds() -> None:
    refused = (429, b"", {"Retry-After": "1"})
    async with bank_answering({f"GET {COB}": [refused, (200, cob())]}) as bank:
        assert isinstance(await bank.pix.get_cob(TXID), CobState)
    async with bank_answering({f"GET {COB}": [refused, (429, b""), (200, cob())]}) as bank:
        assert await bank.pix.get_cob(TXID) == Unknown("HTTP 429"), "once"


async def test_after_a_429_for_a_token_the_bank_is_not_called_until_retry_after_has_passed() -> None:
    token = {"access_token": "t", "expires_in": 600}
    answers = {"POST /oauth/token": [(429, b"", {"Retry-After": "60"}), (200, token)], f"GET {COB}": (200, cob())}
    async with bank_answering(answers) as bank:
        assert await bank.pix.get_cob(TXID) == Unknown("token: HTTP 429")
        assert await bank.pix.get_cob(TXID) == Unknown("HTTP 429")
        assert len(answers["POST /oauth/token"]) == 1, "it was asked once"
        let_pass(bank, 60)
        assert isinstance(await bank.pix.get_cob(TXID), CobState)


@pytest.mark.parametrize("said", ["Fri, 20 Nov 2026 12:00:00 GMT", "-1", "1e9", "", "\u0661"], ids=ascii)
async def test_an_unreadable_retry_after_delays_no_call(said: str) -> None:
    async with bank_answering({f"GET {COB}": [(429, b"", {"Retry-After": said}), (200, cob())]}) as bank:
        assert await bank.pix.get_cob(TXID) == Unknown("HTTP 429")
        assert isinstance(await bank.pix.get_cob(TXID), CobState)


async def test_the_banks_retry_after_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits for a pause of at most PAUSE_S_MAX; a longer one, as the bank asked for, would be its outcome."""
    monkeypatch.setattr(transport, "RETRY_AFTER_S_MAX", 0.5)
    async with bank_answering({f"GET {COB}": [(429, b"", {"Retry-After": "9" * 30}), (200, cob())]}) as bank:
        assert isinstance(await bank.pix.get_cob(TXID), CobState)


# Returns and transfers that may have been made


def refusal_of_a_return(reason: str) -> Any:
    said = {"title": "x", "detail": "A devolução é inválida.", "violacoes": [{"razao": reason, "propriedade": "id"}]}
    return (400, {"type": "https://pix.bcb.gov.br/api/v2/error/PixDevolucaoInvalida", **said})


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        ("O id já foi utilizado.", Unknown), ("Ja existe devolucao com este id para o e2eid.", Unknown),
        ("Identificador duplicado.", Unknown), ("O prazo de 90 dias passou.", Rejected),
        ("A soma das devoluções supera o valor do Pix.", Rejected), ("O prazo\0de 90 dias passou.", Rejected),
    ],
)  # fmt: skip
async def test_a_refusal_because_the_id_is_used_is_unknown_and_other_reasons_are_rejected(
    reason: str, wanted: type
) -> None:
    """Only an earlier attempt of ours can have used the id: the money may have gone, so the wallet stays debited."""
    missing = (404, {"type": "https://pix.bcb.gov.br/api/v2/error/NaoEncontrado", "title": "x", "detail": "-"})
    back, out = f"/pix/v2/pix/E1/devolucao/{TXID}", f"/transfers/v1/transferencia/{TXID}"
    answers = {f"PUT {each}": refusal_of_a_return(reason) for each in (back, out)} | {
        f"GET {each}": missing for each in (back, out)
    }
    async with bank_answering(answers) as bank:
        answer = await bank.transfers.return_pix(Return(id=TXID, end_to_end_id="E1", amount_cents=100))
        assert isinstance(answer, wanted), answer
        sent = Transfer(id=TXID, pix_key="a@b.br", document="52998224725", amount_cents=100)
        assert isinstance(await bank.transfers.send_pix(sent), wanted)
    assert not isinstance(answer, Rejected) or answer.message.isprintable(), "a message with NUL cannot be stored"


async def test_a_listed_transfer_whose_id_cannot_be_stored_is_set_aside_alone() -> None:
    item = {"id": TXID, "valor": "1.00", "status": "REALIZADO", "horario": {"solicitacao": "2026-11-20T12:00:00Z"}}
    listed = {"parametros": {}, "transferencias": [item | {"id": "a\0"}, item | {"endToEndId": "E\0"}]}
    async with bank_answering({"GET /transfers/v1/transferencia": (200, listed)}) as bank:
        page = await bank.transfers.sent_page(NOW - timedelta(hours=1), NOW)
    assert isinstance(page, Done)
    assert [(each.id, each.reference) for each in page.value.items] == [(TXID, None)]
    assert len(page.value.unreadable) == 1


# Callback registration


@pytest.mark.parametrize(
    ("status", "body", "registered"),
    [
        (200, b"", True), (204, b"", True), (201, {"webhookUrl": "https://x", "chave": "k"}, True),
        (200, b"<html><body>Em manutencao</body></html>", False), (200, b"{", False), (302, b"", False),
    ],
)  # fmt: skip
async def test_a_gateways_html_page_does_not_count_as_a_registered_callback(
    status: int, body: Any, *, registered: bool
) -> None:
    """Otherwise the registration would not be repeated, and no callback would ever arrive."""
    async with bank_answering({"PUT /pix/v2/webhook/k": (status, body)}) as bank:
        answer = await bank.pix.register_callback("k", "https://x")
    assert isinstance(answer, Done if registered else Unknown)


# Changes that take several calls


@pytest.mark.parametrize(
    ("said", "wanted"), [((400, NO), Rejected("4874999", "Nao")), ((503, b""), Unknown("HTTP 503"))]
)
async def test_a_refused_later_call_of_a_re_dating_refuses_the_whole_change(said: Any, wanted: Any) -> None:
    """Read as silence, the refusal had the whole change retried again and again, with the same answer."""
    boleto = new_boleto()
    done = (200, {"numeroContratoCobranca": "1", "dataAtualizacao": "20.11.2026"})
    async with bank_answering({f"PATCH /cobrancas/v2/boletos/{boleto.number}": [done, said]}) as bank:
        terms = PaymentTerms(fine=Fine(percent_bps=200), payable_days=30)
        assert await bank.boletos.redate_boleto(boleto.number, today() + timedelta(days=9), terms=terms) == wanted
