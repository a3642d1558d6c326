"""Merchants' logos, for whoever opens a payer's page or is shown a link to it."""

from typing import Any, Final

from litestar import Request, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ControllerRouterHandler

from readmodels.documents.logo import logo_file
from runtime.postgres import session
from web.context import spend

_HEADERS: Final = {
    # The address has the content's digest in it: what it shows never changes.
    "Cache-Control": "public, max-age=31536000, immutable",
    # Opened by itself it is a picture and nothing else, whatever a browser takes it for.
    "Content-Security-Policy": "default-src 'none'; sandbox",
}


@get("/logo/{name:str}")
async def show_logo(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
    """404 for what is not there, and once it was replaced or its merchant blocked: browsers that have it keep it."""
    spend(request, "logos_per_min")
    async with session(request.app.state.pool) as conn:
        found = await logo_file(conn, name)
    if found is None:
        raise NotFoundException
    return Response(found, media_type="image/png", headers=_HEADERS)


LOGO_HANDLERS: list[ControllerRouterHandler] = [show_logo]
