"""/correio: the link by which a payer stops mails, and in local work the mails that would have been sent.

The mail catcher's pages show payers' mails. They exist only when MAIL_CATCHER is on and no mail server is set, which
only `quita up` does. They answer only requests from this machine, addressed to one of its names (against DNS rebinding)
and not sent through a proxy or tunnel, whose requests would come from this machine too. Other requests get 404.
"""

from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from litestar import MediaType, Request, get, post
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ControllerRouterHandler

import sql
from commands.mail import read_stop_token, stop
from domain.client_address import HEADERS
from readmodels.documents.caught_mail import CaughtMail, caught_mail, caught_mails
from runtime.postgres import session
from web.pages import page
from web.painel.page_request import address_of

_POLICY = (
    "default-src 'none'; img-src 'self'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_FORM_HEADERS: Final = {"Content-Security-Policy": _POLICY}
# A mail's styles are inline. The sandbox keeps anything a merchant wrote into a mail from running here.
_MAIL_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox allow-popups",
}
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PROXY_HEADERS: Final = (*HEADERS, "x-real-ip", "via")
"""Headers of which a proxy adds at least one; any of them counts, trusted or not."""

AnyRequest = Request[Any, Any, Any]


find_merchant = sql.maybe("mail.merchant", str)
"""The merchant's name. Takes `account_id`."""


@get("/correio/parar/{token:str}")
async def ask_to_stop(request: AnyRequest, token: FromPath[str]) -> Response[str]:
    """The page that asks for confirmation: mail scanners follow every link, but press no button."""
    merchant, _ = await _read_stop_link(request, token)
    return page(
        "mail_stop.html",
        {"merchant": merchant, "path": f"/correio/parar/{token}", "done": False},
        headers=_FORM_HEADERS,
    )


@post("/correio/parar/{token:str}", status_code=200)
async def stop_mails(request: AnyRequest, token: FromPath[str]) -> Response[str]:
    """Stops the mails, by the page's button or by one click in a mail program (RFC 8058). The token is the permission;
    a repeated request changes nothing."""
    merchant, (account_id, to_hash) = await _read_stop_link(request, token)
    async with session(request.app.state.pool) as conn:
        await stop(conn, account_id=account_id, to_hash=to_hash, now=request.app.state.now())
    return page("mail_stop.html", {"merchant": merchant, "path": "", "done": True}, headers=_FORM_HEADERS)


@get("/correio")
async def show_list(request: AnyRequest) -> Response[str]:
    _require_local(request)
    async with session(request.app.state.pool) as conn:
        mails = await caught_mails(conn, seal=request.app.state.context.seal)
    return page("mail_list.html", {"mails": mails})


@get("/correio/{mail_id:uuid}")
async def show_one(request: AnyRequest, mail_id: FromPath[UUID]) -> Response[str]:
    return page("mail_one.html", {"mail": await _caught_mail(request, mail_id)})


@get("/correio/{mail_id:uuid}/html")
async def show_html(request: AnyRequest, mail_id: FromPath[UUID]) -> Response[str]:
    mail = await _caught_mail(request, mail_id)
    return Response(mail.html, media_type=MediaType.HTML, headers=_MAIL_HEADERS)


@get("/correio/{mail_id:uuid}/anexos/{position:int}")
async def show_file(request: AnyRequest, mail_id: FromPath[UUID], position: FromPath[int]) -> Response[bytes]:
    mail = await _caught_mail(request, mail_id)
    if not 0 <= position < len(mail.files):
        raise NotFoundException
    file = mail.files[position]
    return Response(file.content, media_type=file.media_type, headers={"Content-Disposition": "attachment"})


MAIL_HANDLERS: list[ControllerRouterHandler] = [ask_to_stop, stop_mails, show_list, show_one, show_html, show_file]


async def _read_stop_link(request: AnyRequest, token: str) -> tuple[str, tuple[UUID, str]]:
    target = read_stop_token(token, request.app.state.context.seal)
    if target is None:
        raise NotFoundException
    async with session(request.app.state.pool) as conn:
        merchant = await find_merchant(conn, account_id=target[0])
    if merchant is None:
        raise NotFoundException
    return merchant, target


async def _caught_mail(request: AnyRequest, mail_id: UUID) -> CaughtMail:
    _require_local(request)
    async with session(request.app.state.pool) as conn:
        mail = await caught_mail(conn, mail_id, seal=request.app.state.context.seal)
    if mail is None:
        raise NotFoundException
    return mail


def _require_local(request: AnyRequest) -> None:
    settings = request.app.state.settings
    name = _host_name(request.headers.get("host", ""))
    is_our_name = name in _LOCAL_NAMES or name == urlsplit(settings.app_url).hostname
    if not settings.mail_catcher or not is_our_name or not _is_from_this_machine(request):
        raise NotFoundException


def _host_name(host: str) -> str | None:
    """The host name in a Host header, or None: the header may hold any text."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_from_this_machine(request: AnyRequest) -> bool:
    if any(name in request.headers for name in _PROXY_HEADERS):
        return False
    try:
        return ip_address(address_of(request)).is_loopback
    except ValueError:
        return False
