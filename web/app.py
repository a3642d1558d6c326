"""The web pages: payer's page, dashboard and public documentation, as a Litestar application beside the API's.

The two applications share no middleware, session or error format, so that neither slows the other.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import structlog
from litestar import Litestar, Request
from litestar.exceptions import HTTPException
from litestar.response import Response

from domain.errors import Code, Refused
from readmodels.documents.boleto_pdf import BoletoPrinter
from runtime.limits.rates import ClientRates
from runtime.limits.shares import Shares
from runtime.postgres import DB_UNAVAILABLE, Pool, open_pool
from runtime.servers.standby import Reads
from runtime.settings import Settings, read_settings
from web.context import WebContext
from web.documentation.downloads import DOWNLOAD_HANDLERS
from web.documentation.handlers import DOCS_HANDLERS, Docs
from web.front import FRONT_HANDLERS
from web.live import Live
from web.logo import LOGO_HANDLERS
from web.mail import MAIL_HANDLERS
from web.pages import FILE_HANDLERS, page
from web.painel.auth.sign_in import sign_in_turns
from web.painel.page_refusals import ForeignForm
from web.painel.page_request import file_turns, secure
from web.painel.table import PAINEL_HANDLERS
from web.painel.xlsx_export import remove_leftovers
from web.payer import PAYER_HANDLERS
from web.pix_locations import LOCATION_HANDLERS
from web.plataforma.table import PLATAFORMA_HANDLERS
from web.security_headers import with_security_headers

_BODY_BYTES_MAX = 64 * 1024  # for the dashboard's forms; no other page reads a body

_log = structlog.get_logger()

# fmt: off
_WORDS: dict[int, tuple[str, str]] = {
    400: ("Pedido inválido", "O endereço não pôde ser lido. Confira o link que você recebeu."),
    404: ("Página não encontrada", "Confira se o link está completo, ou peça um novo a quem o enviou."),
    405: ("Operação não disponível", "Esta página só pode ser aberta, não recebe outros pedidos."),
    429: ("Muitos pedidos em pouco tempo", "Espere alguns segundos e abra a página de novo."),
    500: ("Algo deu errado do nosso lado", "Já fomos avisados. Tente de novo em alguns instantes."),
    503: ("Serviço indisponível no momento", "Nada foi perdido. Tente de novo em alguns instantes."),
}
_WORDS_PAINEL: dict[int, tuple[str, str]] = {
    **_WORDS,
    400: ("Pedido inválido", "O endereço ou o formulário não pôde ser lido. Volte e tente de novo."),
    403: ("Sem permissão", "Seu perfil não abre esta página. Quem é proprietário da conta pode mudar o seu perfil."),
    404: ("Página não encontrada", "Não há nada neste endereço, ou não é da sua conta."),
    413: ("Formulário grande demais", "Volte e envie menos dados, ou um arquivo menor."),
}
_WORDS_PLATAFORMA: dict[int, tuple[str, str]] = {
    **_WORDS_PAINEL,
    403: ("Sem permissão", "Seu perfil não abre esta página. Quem administra a equipe pode mudá-lo."),
}
_FOREIGN_FORM = (
    "Formulário de outra sessão", "Nada foi feito. Volte, recarregue a página e envie o formulário de novo.",
)  # fmt: skip
_WORDS_DOCS: dict[int, tuple[str, str]] = {
    400: ("Bad request", "The address could not be read."),
    404: ("Page not found", "There is nothing at this address."),
    405: ("Method not allowed", "This page can only be read."),
    429: ("Too many requests", "Wait some seconds and open the page again."),
    500: ("Something went wrong on our side", "We have been told. Try again in a moment."),
    503: ("Service unavailable", "Try again in a moment."),
}
_WORDS_DOCS_PT: dict[int, tuple[str, str]] = {
    **_WORDS,
    400: ("Pedido inválido", "O endereço não pôde ser lido."),
    404: ("Página não encontrada", "Não há nada neste endereço."),
}
# The words of error pages, by the first of these prefixes that the path begins with.
_WORDS_BY_PREFIX = {
    "/docs/pt": _WORDS_DOCS_PT, "/docs": _WORDS_DOCS, "/painel": _WORDS_PAINEL, "/plataforma": _WORDS_PLATAFORMA,
}
# fmt: on

_REPORT_POOL_SIZE = 2
"""Connections for reports: only few members of staff read reports at once."""


def utc_now() -> datetime:
    return datetime.now(UTC)


def make_app(
    settings: Settings | None = None,
    *,
    pool: Pool | None = None,
    openapi: bytes = b"",
) -> Litestar:
    """The application. Without `settings` they are read from the environment; without `pool` the application opens its
    own pools and closes them at its end. `openapi` is the API's OpenAPI document, which the documentation shows.

    Handlers find `pool` (payers' pages), `people_pool`, `report_pool`, `reads`, `settings`, `now`, `context`, `printer`
    and `cells` in `request.app.state`; `cells` returns the cells of a process that serves several (web/cells.py).
    """
    app = Litestar(
        route_handlers=[
            *PAYER_HANDLERS,
            *PAINEL_HANDLERS,
            *PLATAFORMA_HANDLERS,
            *MAIL_HANDLERS,
            *DOCS_HANDLERS,
            *DOWNLOAD_HANDLERS,
            *LOCATION_HANDLERS,
            *LOGO_HANDLERS,
            *FRONT_HANDLERS,
            *FILE_HANDLERS,
        ],
        lifespan=[lifespan(settings, pool=pool, now=utc_now, openapi=openapi)],
        exception_handlers={Exception: _error_page, HTTPException: _error_page},
        openapi_config=None,
        logging_config=None,
        request_max_body_size=_BODY_BYTES_MAX,
    )
    app.asgi_handler = with_security_headers(app.asgi_handler, tls=lambda: secure(app.state.settings))
    return app


def lifespan(
    settings: Settings | None, *, pool: Pool | None, now: Callable[[], datetime], openapi: bytes
) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    """The lifespan that opens and closes the application's state, as `make_app` describes it."""

    @asynccontextmanager
    async def life(app: Litestar) -> AsyncIterator[None]:
        await asyncio.to_thread(remove_leftovers)
        app.state.settings = settings or read_settings()
        app.state.now = now
        # Renders its forms with the first boleto, because most processes print none.
        app.state.printer = BoletoPrinter()
        app.state.sign_in_turns, app.state.file_turns, app.state.cells = sign_in_turns(), file_turns(), tuple
        own_pools = [] if pool else await _open_pools(app.state.settings)
        app.state.pool, app.state.people_pool, app.state.report_pool = own_pools or (pool, pool, pool)
        app.state.reads = Reads(app.state.people_pool, await _open_standby(app.state.settings))
        app.state.shares, app.state.workbooks = (Shares(app.state.settings.pace.account_at_once) for _ in range(2))
        app.state.rates = ClientRates(app.state.settings.rates)
        app.state.context = WebContext(app.state.settings, app.state.pool, now=now)
        await app.state.context.open()
        app.state.docs = Docs(app.state.settings, openapi)
        app.state.live = Live(app.state.pool, now)
        try:
            yield
        finally:
            app.state.live.close()
            await app.state.context.close()
            await app.state.reads.close()
            await asyncio.gather(*(each.close() for each in own_pools))

    return life


async def _open_pools(settings: Settings) -> list[Pool]:
    """The pools for payers' pages, for pages of signed-in people, and for the platform's reports, which only read."""
    url, pace, statements_kept = settings.database_url, settings.pace, settings.statements_kept
    opened: list[Pool] = []
    try:
        for name, size in (("web", pace.web_pool_size), ("web people", pace.people_pool_size)):
            opened.append(await open_pool(url, name=name, size=size, statements_kept=statements_kept))
        opened.append(
            await open_pool(settings.database_report_url, name="web reports", size=_REPORT_POOL_SIZE, target="any")
        )
    except BaseException:
        for each in opened:
            each.terminate()
        raise
    return opened


async def _open_standby(settings: Settings) -> Pool | None:
    """The pool on the standby, for lists and files of signed-in people; None without a standby."""
    url, size = settings.database_read_url, settings.pace.people_pool_size
    if not url:
        return None
    statements_kept = settings.statements_kept
    return await open_pool(url, name="web reads", size=size, size_min=0, statements_kept=statements_kept, target="any")


# The link of the error page, by the path's prefix. A payer's error page has none: a payer has no page but their link.
_HOME_LINKS = {
    "/painel": "Ir ao início do painel", "/plataforma": "Ir ao início da plataforma", "/docs": "To the documentation",
    "/docs/pt": "Ir à documentação",
}  # fmt: skip


def _error_page(request: Request[Any, Any, Any], exc: Exception) -> Response[str]:
    """The error page."""
    headers: dict[str, str] = {}
    if isinstance(exc, HTTPException) and exc.status_code < 500:
        status = exc.status_code
        headers.update(exc.headers or {})
    elif isinstance(exc, Refused) and exc.code is Code.RATE_LIMITED:
        status = 429
        headers["Retry-After"] = str(exc.retry_after_s or 1)
    elif isinstance(exc, (*DB_UNAVAILABLE, OverflowError)):
        status = 503
        headers["Retry-After"] = "5"
    else:
        status = 500
    request_id = request.scope["state"]["request_id"]
    if status >= 500:
        # The route's template is logged, not the path: a path may hold a public_id, which gives access to a charge.
        _log.error(
            "web_request_failed",
            request_id=request_id,
            route=request.scope.get("path_template"),
            status=status,
            exc_info=exc if status == 500 else None,
            error=type(exc).__name__,
        )
    shown_request_id = request_id if status >= 500 else None
    among_cells = bool(request.app.state.cells())
    values = _error_words(
        request.scope["path"], status, shown_request_id, foreign=isinstance(exc, ForeignForm), among_cells=among_cells
    )
    return page("error.html", values, status=status, headers=headers)


def unavailable_page(path: str) -> bytes:
    """The page shown at this path while the database of its cell is unavailable."""
    return page("error.html", _error_words(path, 503, None, among_cells=True), status=503).content.encode()


def _error_words(
    path: str, status: int, request_id: str | None, *, foreign: bool = False, among_cells: bool = False
) -> dict[str, Any]:
    english = path.startswith("/docs") and not path.startswith("/docs/pt")
    words = next((each for root, each in _WORDS_BY_PREFIX.items() if path.startswith(root)), _WORDS)
    title, text = _FOREIGN_FORM if foreign else words.get(status, words[400])
    values = {"lang": "en" if english else "pt-BR", "title": title, "text": text, "request_id": request_id, "home": ""}
    for root, home_text in _HOME_LINKS.items():
        if path.startswith(root):
            values |= {"home": root, "home_text": home_text}
    if among_cells and status == 503 and path.startswith("/plataforma"):
        # The section's first page belongs to the cell that is unavailable, so the link leads to the choice of cells.
        values |= {"home": "/plataforma/celula", "home_text": "Escolher outra célula"}
    return values
