"""The account's logo, as payers see it: an owner uploads it and removes it. Staff do the same for a merchant
(web/plataforma/merchant/logo.py)."""

import asyncio
from typing import Any, Final

from litestar.response import Response

from commands.merchants.profile.logo import StoredLogo, remove_logo, set_logo
from domain.brazilian import thousands
from domain.errors import Code, Refused
from domain.merchants.logo import SENT_BYTES_MAX, SENT_SIDE_MAX, SENT_SIDE_MIN
from web.painel.page_request import PageRequest
from web.painel.settings.company import company_page

CHANGED: Final = "merchant.logo_changed"
REMOVED: Final = "merchant.logo_removed"
MEGABYTES_MAX: Final = SENT_BYTES_MAX // (1024 * 1024)
_FAULTS: Final = {
    "": "Escolha um arquivo PNG ou JPEG.",
    "bytes": f"O arquivo tem mais de {MEGABYTES_MAX} MB.",
    "kind": "Este arquivo não é uma imagem PNG ou JPEG que possamos ler.",
    "size": (
        f"A imagem precisa ter de {SENT_SIDE_MIN} a {thousands(SENT_SIDE_MAX)} pixels de lado, até 4 milhões ao todo, "
        "e não pode ser uma faixa estreita demais."
    ),
    "blank": "No papel branco esta imagem não aparece. Envie uma versão com cores escuras.",
}


class LogoFault(Exception):
    """The file that was sent cannot be used as a logo; `args[0]` says why, to the person who sent it."""


async def change(request: PageRequest) -> Response[Any]:
    """Changes the logo; for owners, at any time. Payers see the new logo at once."""
    try:
        logo = await read_logo_upload(request)
    except LogoFault as fault:
        return await company_page(request, logo_fault=str(fault))
    account_id = request.session.account_id
    async with request.change(CHANGED, subject=str(account_id), logo=logo.digest.hex()) as conn:
        await set_logo(conn, account_id, logo, now=request.now)
    return request.go("/painel/empresa", done="logotipo")


async def remove(request: PageRequest) -> Response[Any]:
    account_id = request.session.account_id
    async with request.change(REMOVED, subject=str(account_id)) as conn:
        await remove_logo(conn, account_id)
    return request.go("/painel/empresa", done="logotipo-removido")


async def read_logo_upload(request: PageRequest) -> StoredLogo:
    """Returns the file of the form, decoded in a thread. Raises LogoFault and Refused(RATE_LIMITED)."""
    sent = request.files.get("logo")
    if not sent:
        raise LogoFault(_FAULTS[""])
    request.spend("files_per_min")
    from commands.merchants.profile.logo_pixels import read_logo  # Pillow, which most processes never need

    try:
        async with request.file_turn():
            return await asyncio.to_thread(read_logo, sent)
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise
        raise LogoFault(_FAULTS[(refused.fields or {})["logo"]]) from None
