"""The public documentation: a quick start, webhooks, and a page for every code the API can refuse with.

Error answers of the API link to /docs/errors/<code>; those pages are made from the table of codes.
"""

from pathlib import Path
from typing import Any

from litestar import Request, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ControllerRouterHandler
from markupsafe import Markup

from domain.errors import Code
from web.markdown import html_of
from web.pages import page
from web.remedies import REMEDIES

# A file of its own and not text in the template, so that the tests run exactly what is printed.
_VERIFY = (Path(__file__).parent / "templates" / "verify_webhook.py").read_text(encoding="utf-8")
# The text people read in the repository is the page: there is no second one to go stale.
_WEBHOOKS = (Path(__file__).parents[1] / "docs" / "webhooks.md").read_text(encoding="utf-8")
_CODES = sorted(Code, key=lambda code: (code.status, code.name))


@get("/docs")
async def quick_start(request: Request[Any, Any, Any]) -> Response[str]:
    return page("docs_start.html", {"base_url": request.app.state.settings.base_url, "verify": _VERIFY})


@get("/docs/webhooks")
async def webhooks(request: Request[Any, Any, Any]) -> Response[str]:
    content = Markup(html_of(_WEBHOOKS.replace("{base_url}", request.app.state.settings.base_url)))  # noqa: S704
    return page("docs_text.html", {"title": "Webhooks", "content": content})


@get("/docs/errors")
async def error_index() -> Response[str]:
    return page("docs_errors.html", {"codes": _CODES})


@get("/docs/errors/{name:str}")
async def error_page(name: FromPath[str]) -> Response[str]:
    code = Code.__members__.get(name)
    if code is None:
        raise NotFoundException
    return page("docs_error.html", {"code": code, "remedy": REMEDIES[code]})


DOCS_HANDLERS: list[ControllerRouterHandler] = [quick_start, webhooks, error_index, error_page]
