"""The host's first page, for people who type its address, and robots.txt."""

import re
from typing import Any, Final

from litestar import Request, get
from litestar.response import Response
from litestar.types import ControllerRouterHandler

from web.pages import page

# Search engines may list only the front page and the documentation; payers and merchants open their pages by links.
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
    """The link for SUPPORT_CONTACT; empty when it is neither an e-mail address nor a web page."""
    return f"mailto:{contact}" if _MAIL.fullmatch(contact) else contact if contact.startswith("https://") else ""


@get("/robots.txt")
async def robots() -> Response[str]:
    return Response(_ROBOTS, media_type="text/plain", headers={"Cache-Control": "public, max-age=86400"})


FRONT_HANDLERS: list[ControllerRouterHandler] = [show, robots]
