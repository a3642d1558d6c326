"""The first page of the host, for whoever opens it by hand, and what robots are told."""

import re
from typing import Any, Final

from litestar import Request, get
from litestar.response import Response
from litestar.types import ControllerRouterHandler

from web.pages import page

# Nothing here is to be found by searching but the documentation: pages of payers and merchants have links of their own.
_ROBOTS: Final = "User-agent: *\nAllow: /docs\nAllow: /$\nDisallow: /\n"
_MAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")


@get("/")
async def show(request: Request[Any, Any, Any]) -> Response[str]:
    settings = request.app.state.settings
    contact = settings.support_contact
    values = {
        "title": "Quita", "docs_url": settings.docs_url, "contact": contact, "contact_link": support_link(contact),
    }  # fmt: skip
    return page("front.html", values)


def support_link(contact: str) -> str:
    """Where SUPPORT_CONTACT leads; empty for what is neither an e-mail address nor a page."""
    return f"mailto:{contact}" if _MAIL.fullmatch(contact) else contact if contact.startswith("https://") else ""


@get("/robots.txt")
async def robots() -> Response[str]:
    return Response(_ROBOTS, media_type="text/plain", headers={"Cache-Control": "public, max-age=86400"})


FRONT_HANDLERS: list[ControllerRouterHandler] = [show, robots]
