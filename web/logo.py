"""Merchants' logos, for payers' pages and for previews of links to these pages."""

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
    # The address contains the content's digest, so its content never changes.
    "Cache-Control": "public, max-age=31536000, immutable",
    # Opened by itself, the file can do nothing but show a picture, even if a browser takes it for another type.
    "Content-Security-Policy": "default-src 'none'; sandbox",
}


@get("/logo/{name:str}")
async def show_logo(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
    """The logo; 404 if there is none, after it was replaced, and while its merchant is blocked. Browsers may still show
    their cached copy."""
    spend(request, "logos_per_min")
    async with session(request.app.state.pool) as conn:
        image = await logo_file(conn, name)
    if image is None:
        raise NotFoundException
    return Response(image, media_type="image/png", headers=_HEADERS)


LOGO_HANDLERS: list[ControllerRouterHandler] = [show_logo]
