"""A payer of one merchant, for the staff: all data held about them as a file, and its erasure (docs/privacy.md)."""

from typing import Any, Final

import msgspec
from litestar.response import Response

from commands.payers.erase import OpenBusiness, erase_payer
from commands.payers.export import export_payer
from domain.documents import well_formed, without_marks
from domain.mode import Owner
from runtime.postgres import session
from web.painel.auth.step_up import require_step_up
from web.painel.fields import Filled
from web.painel.page_request import PAGE_HEADERS, PageRequest
from web.plataforma.merchants import merchant_of

REASON_MAX: Final = 200
_OPEN_BUSINESS: Final = {
    "pending charges": "cobranças que ainda podem ser pagas",
    "refunds on their way": "devoluções a caminho",
    "schedules that go on": "programações ativas",
}
_NO_PAYER: Final = "Não guardamos nada de quem tem este documento nesta loja, no ambiente escolhido."


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request, Filled())


async def download(request: PageRequest) -> Response[Any]:
    """Answers the payer's data as JSON, which the merchant hands to the payer."""
    filled = Filled(request)
    require_step_up(request, "Baixar os dados de um pagador", {"Documento": filled.value("document")})
    owner, document = _read_owner(request, filled), _read_document(filled)
    if filled.faults:
        return await _page(request, filled)
    async with session(request.pool) as conn:
        payer_data = await export_payer(
            conn, owner, request.seal.blind(document), request.origin, now=request.now, seal=request.seal
        )
    if not payer_data.charges and not payer_data.schedules:
        filled.wrong("document", _NO_PAYER)
        return await _page(request, filled)
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="pagador-{request.now:%Y-%m-%d}.json"'}
    export = {"account_id": str(owner.account_id), "test": owner.test, **msgspec.to_builtins(payer_data)}
    body = msgspec.json.format(msgspec.json.encode(export), indent=2)
    return Response(body, media_type="application/json", headers=headers)


async def erase(request: PageRequest) -> Response[Any]:
    """Erases the payer's data, which cannot be undone. A form sent again finds no payer."""
    filled = Filled(request)
    require_step_up(request, "Apagar os dados de um pagador", {"Documento": filled.value("document")})
    owner, document = _read_owner(request, filled), _read_document(filled)
    reason = filled.value("reason")
    if not 0 < len(reason) <= REASON_MAX or not reason.isprintable():
        filled.wrong("reason", f"Escreva o motivo, com até {REASON_MAX} caracteres e sem dados do pagador.")
    if request.field("sure") != "yes":
        filled.wrong("sure", "Confirme que quer apagar.")
    if filled.faults:
        return await _page(request, filled)
    try:
        async with session(request.pool) as conn:
            erased = await erase_payer(
                conn, owner, request.seal.blind(document), reason, request.origin, now=request.now
            )
    except OpenBusiness as open_business:
        filled.wrong(
            "document", f"Falta encerrar: {_open_business_text(open_business)}. Encerre antes, e apague depois."
        )
        return await _page(request, filled)
    if not erased.charges and not erased.schedules:
        filled.wrong("document", _NO_PAYER)
        return await _page(request, filled)
    return request.go(f"/plataforma/lojas/{owner.account_id}", done="pagador-apagado")


def _open_business_text(open_business: OpenBusiness) -> str:
    return " e ".join(f"{_OPEN_BUSINESS[name]} ({count})" for name, count in open_business.found.items())


def _read_owner(request: PageRequest, filled: Filled) -> Owner:
    account_id = request.id("account_id")
    mode = filled.value("mode")
    if mode not in ("production", "test"):
        filled.wrong("mode", "Escolha o ambiente.")
    return Owner.of(account_id, mode == "test")


def _read_document(filled: Filled) -> str:
    """Returns the document without punctuation; sets a fault beside the field when it is not a CPF or CNPJ."""
    document = without_marks(filled.value("document")).upper()
    if not well_formed(document, letters=True):
        filled.wrong("document", "Informe o CPF (11 dígitos) ou o CNPJ (14) do pagador, como a loja o deu.")
    return document


async def _page(request: PageRequest, filled: Filled) -> Response[Any]:
    values = {
        "merchant": await merchant_of(request),
        "filled": filled,
        "modes": {"production": "Produção", "test": "Teste"},
        "reason_max": REASON_MAX,
    }
    return request.show("plataforma/payer.html", values, status=400 if filled.faults else 200)
