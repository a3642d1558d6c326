"""A merchant's logo, for the staff: uploaded on the merchant's behalf, and removed when it belongs to somebody else."""

from typing import Any, Final

from litestar.response import Response

from commands.merchants.profile.logo import remove_logo, set_logo
from commands.people.audit import audit_for_account
from web.painel.page_request import PageRequest
from web.painel.settings.logo import CHANGED, REMOVED, LogoFault, read_logo_upload
from web.plataforma.merchants import merchant_of, merchant_view

OF_LOGO: Final = "logo"


async def change(request: PageRequest) -> Response[Any]:
    account_id = (await merchant_of(request)).account_id
    try:
        logo = await read_logo_upload(request)
    except LogoFault as fault:
        return await merchant_view(request, fault=str(fault), fault_of=OF_LOGO)
    facts = {"logo": logo.digest.hex()}
    async with request.change(CHANGED, subject=str(account_id), **facts) as conn:
        await set_logo(conn, account_id, logo, now=request.now)
        await audit_for_account(conn, account_id, CHANGED, facts, request.origin, now=request.now)
    return request.go(f"/plataforma/lojas/{account_id}", done="logotipo")


async def remove(request: PageRequest) -> Response[Any]:
    """Removes the logo. Without a logo nothing changes, and the account's log has no entry."""
    account_id = request.id("account_id")
    async with request.change(REMOVED, subject=str(account_id)) as conn:
        if await remove_logo(conn, account_id):
            await audit_for_account(conn, account_id, REMOVED, {}, request.origin, now=request.now)
    return request.go(f"/plataforma/lojas/{account_id}", done="logotipo-removido")
