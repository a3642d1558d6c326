"""The payer's page: no login, whoever has the link may look and pay.

The page is complete without scripts. With them it asks `/estado` every few seconds and, when something
changed, puts `/fragmento` in the place of its middle.
"""

from datetime import datetime
from typing import Any

from litestar import Request, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ControllerRouterHandler

from domain.charge import NEXT, Status
from domain.instants import iso
from domain.qr import png_data_uri
from readmodels.payer_page import PayerPage, payer_page
from runtime.postgres import session
from web.brazilian import brl, moment_near
from web.pages import page

# fmt: off
# What a state is called on the page: heading, and what is said to those who cannot see it change.
WORDS: dict[Status, tuple[str, str]] = {
    Status.PENDING:   ("Aguardando pagamento", "Aguardando pagamento."),
    Status.PAID:      ("Pagamento confirmado", "Pagamento confirmado. O comprovante está nesta página."),
    Status.EXPIRED:   ("Esta cobrança venceu", "Esta cobrança venceu. Não pague com este código."),
    Status.CANCELLED: ("Cobrança cancelada", "Esta cobrança foi cancelada. Não pague com este código."),
    Status.REFUNDED:  ("Pagamento devolvido", "O pagamento desta cobrança foi devolvido."),
    Status.FAILED:    ("Cobrança não concluída", "Não foi possível concluir esta cobrança."),
}
# fmt: on


def _settled(status: Status) -> bool:
    """Whether a page may stop asking: an expired charge can still become paid, the bank may tell us late."""
    return Status.PAID not in NEXT[status].values()


@get("/pagar/{public_id:str}")
async def show(request: Request[Any, Any, Any], public_id: FromPath[str]) -> Response[str]:
    found, now = await _found(request, public_id)
    return page("payer.html", _values(found, public_id, now))


@get("/pagar/{public_id:str}/fragmento")
async def show_fragment(request: Request[Any, Any, Any], public_id: FromPath[str]) -> Response[str]:
    found, now = await _found(request, public_id)
    return page("payer_state.html", _values(found, public_id, now))


@get("/pagar/{public_id:str}/estado")
async def show_state(request: Request[Any, Any, Any], public_id: FromPath[str]) -> dict[str, str | int]:
    found, _ = await _found(request, public_id)
    return {"status": found.status.value, "version": found.version}


PAYER_HANDLERS: list[ControllerRouterHandler] = [show, show_fragment, show_state]


async def _found(request: Request[Any, Any, Any], public_id: str) -> tuple[PayerPage, datetime]:
    state = request.app.state
    now = state.now()
    async with session(state.pool) as conn:
        found = await payer_page(conn, public_id, now=now)
    if found is None:
        raise NotFoundException
    return found, now


def _values(found: PayerPage, public_id: str, now: datetime) -> dict[str, object]:
    heading, announcement = WORDS[found.status]
    payable = found.status is Status.PENDING
    return {
        "charge": found,
        "path": f"/pagar/{public_id}",
        "heading": heading,
        "announcement": announcement,
        "title": f"{heading} – {brl(found.amount_cents)} para {found.merchant}",
        "settled": _settled(found.status),
        # A code that can no longer be paid is not shown at all.
        "qr_image": png_data_uri(found.qr_code) if payable and found.qr_code else None,
        "expires_text": moment_near(found.expires_at, now=now) if found.expires_at else None,
        "expires_iso": iso(found.expires_at) if found.expires_at else None,
        "now_iso": iso(now),
    }
