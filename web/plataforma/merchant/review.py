"""The review of a registration by staff, item by item, and their notes about an account."""

from typing import Any, Final

from litestar.exceptions import ClientException, NotFoundException
from litestar.response import Response

from commands.merchants.registration_review import NOTE_MAX, check_item, uncheck_item, write_note
from domain.brazilian import thousands
from domain.errors import Code, Refused
from readmodels.dashboard.registration_review import ReviewItem
from web.painel.page_request import PageRequest
from web.plataforma.merchants import merchant_of, merchant_view

OF_NOTE: Final = "note"
_SEEN_BYTES: Final = 32


async def check(request: PageRequest) -> Response[Any]:
    account_id, item, seen = (await merchant_of(request)).account_id, _read_item(request), _read_seen(request)
    async with request.change("merchant.item_checked", subject=str(account_id), item=item.value) as conn:
        await check_item(conn, account_id, item, seen, by=request.session.email, now=request.now)
    return request.go(f"/plataforma/lojas/{account_id}", done="conferido")


async def uncheck(request: PageRequest) -> Response[Any]:
    account_id, item = (await merchant_of(request)).account_id, _read_item(request)
    async with request.change("merchant.item_unchecked", subject=str(account_id), item=item.value) as conn:
        await uncheck_item(conn, account_id, item)
    return request.go(f"/plataforma/lojas/{account_id}", done="desmarcado")


async def note(request: PageRequest) -> Response[Any]:
    """Stores a note. The audit log says that a note was written; the text is stored with the account only."""
    account_id, text = (await merchant_of(request)).account_id, request.field("note")
    try:
        async with request.change("merchant.noted", subject=str(account_id)) as conn:
            await write_note(conn, account_id, text, note_id=request.form_id, by=request.session.email, now=request.now)
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise
        fault = f"Escreva a observação, com até {thousands(NOTE_MAX)} caracteres."
        return await merchant_view(request, fault=fault, fault_of=OF_NOTE, reason=text)
    return request.go(f"/plataforma/lojas/{account_id}", done="anotado")


def _read_item(request: PageRequest) -> ReviewItem:
    try:
        return ReviewItem(request.field("item"))
    except ValueError:
        raise NotFoundException from None


def _read_seen(request: PageRequest) -> bytes:
    try:
        seen = bytes.fromhex(request.field("seen"))
    except ValueError:
        raise ClientException from None
    if len(seen) != _SEEN_BYTES:
        raise ClientException
    return seen
