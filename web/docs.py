"""The public documentation: a quick start, guides, the API's reference, and a page for every code it refuses with.

The guides are the texts of docs/, so there is no second one to go stale. Error answers of the API link to
/docs/errors/<code>; those pages are made from the table of codes, and the reference from the OpenAPI document. Nothing
here changes while a process runs: a page is made with its first request, and kept.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from litestar import MediaType, Request, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ControllerRouterHandler
from markupsafe import Markup
from msgspec import Struct

from domain.errors import Code
from runtime.settings import Settings
from web import reference
from web.markdown import headings, html_of
from web.pages import rendered
from web.reference import SCHEMAS, Reference
from web.remedies import REMEDIES

_TEXTS = Path(__file__).parents[1] / "docs"
# The file that the tests run and the guide on webhooks shows.
_VERIFY = (_TEXTS / "receiver" / "verify.py").read_text(encoding="utf-8")
_CODES = sorted(Code, key=lambda code: (code.status, code.name))
# Long enough for a reader who goes back and forth, short enough for a correction.
_KEPT = {"Cache-Control": "public, max-age=300"}


class Guide(Struct, frozen=True):
    """`name`: of the address, and of the file in docs/ with hyphens for underscores."""

    name: str
    title: str
    text: str


def _guide(name: str, title: str) -> Guide:
    return Guide(name, title, (_TEXTS / f"{name.replace('-', '_')}.md").read_text(encoding="utf-8"))


# fmt: off
GUIDES: Final[dict[str, Guide]] = {
    guide.name: guide
    for guide in (
        _guide("idempotency",    "Idempotency"),
        _guide("webhooks",       "Webhooks"),
        _guide("reconciliation", "Reconciliation"),
        _guide("refunds",        "Refunds"),
        _guide("dual-charges",   "Dual charges"),
        _guide("payer-page",     "Payer's page"),
        _guide("schedules",      "Charge schedules"),
        _guide("mail",           "E-mail"),
        _guide("withdrawals",    "Withdrawals"),
        _guide("sandbox",        "Sandbox"),
        _guide("testing",        "Testing"),
    )
}
# fmt: on


class Docs:
    """The pages made so far, by path."""

    def __init__(self, settings: Settings, openapi: bytes) -> None:
        self.settings = settings
        self._openapi = openapi
        self._pages: dict[str, str] = {}
        self._reference: Reference | None = None

    @property
    def reference(self) -> Reference | None:
        """None in a process that was given no OpenAPI document."""
        if self._reference is None and self._openapi:
            self._reference = reference.read(self._openapi)
        return self._reference

    def page(self, path: str, make: Callable[[], tuple[str, dict[str, object]]]) -> Response[str]:
        """The page at `path`; `make` answers its template and values. Bounded: only known paths come here."""
        html = self._pages.get(path)
        if html is None:
            template, values = make()
            html = self._pages[path] = rendered(template, {**self._around(path), **values})
        return Response(html, headers=_KEPT, media_type=MediaType.HTML)

    def _around(self, path: str) -> dict[str, object]:
        """The navigation of every page."""
        tags = self.reference.tags if self.reference is not None else {}
        return {
            "here": path,
            "base_url": self.settings.base_url,
            "guides": list(GUIDES.values()),
            "tags": {name: title for name, (title, _) in tags.items()},
            "sections": [],
        }


AnyRequest = Request[Any, Any, Any]


@get("/docs")
async def quick_start(request: AnyRequest) -> Response[str]:
    return _docs(request).page("/docs", lambda: ("docs_start.html", {"verify": _VERIFY}))


@get("/docs/{name:str}")
async def guide(request: AnyRequest, name: FromPath[str]) -> Response[str]:
    found = GUIDES.get(name)
    if found is None:
        raise NotFoundException
    docs = _docs(request)

    def make() -> tuple[str, dict[str, object]]:
        text = found.text
        for place in ("base_url", "app_url", "docs_url"):
            text = text.replace(f"{{{place}}}", getattr(docs.settings, place))
        content = Markup(html_of(text))  # noqa: S704 - html_of lets nothing of the text through as HTML
        return "docs_text.html", {"title": found.title, "content": content, "sections": headings(text, level=2)}

    return docs.page(f"/docs/{name}", make)


@get("/docs/api")
async def api_index(request: AnyRequest) -> Response[str]:
    docs = _docs(request)
    if docs.reference is None:
        raise NotFoundException
    return docs.page("/docs/api", lambda: ("docs_api.html", {"reference": docs.reference}))


@get("/docs/api/{name:str}")
async def api_part(request: AnyRequest, name: FromPath[str]) -> Response[str]:
    docs = _docs(request)
    found = docs.reference
    if found is not None and name == SCHEMAS:
        return docs.page(f"/docs/api/{name}", lambda: ("docs_schemas.html", {"schemas": found.schemas}))
    if found is None or name not in found.tags:
        raise NotFoundException
    title, operations = found.tags[name]
    sections = [(each.id, each.summary) for each in operations]
    values: dict[str, object] = {"title": title, "operations": operations, "sections": sections}
    return docs.page(f"/docs/api/{name}", lambda: ("docs_operations.html", values))


@get("/docs/errors")
async def error_index(request: AnyRequest) -> Response[str]:
    return _docs(request).page("/docs/errors", lambda: ("docs_errors.html", {"codes": _CODES}))


@get("/docs/errors/{name:str}")
async def error_page(request: AnyRequest, name: FromPath[str]) -> Response[str]:
    code = Code.__members__.get(name)
    if code is None:
        raise NotFoundException
    docs = _docs(request)

    def make() -> tuple[str, dict[str, object]]:
        tags = docs.reference.tags if docs.reference is not None else {}
        given_by = [
            (tag, each)
            for tag, (_, operations) in tags.items()
            for each in operations
            if any(refusal.code == name for refusal in each.refusals)
        ]
        return "docs_error.html", {"code": code, "remedy": REMEDIES[code], "given_by": given_by}

    return docs.page(f"/docs/errors/{name}", make)


DOCS_HANDLERS: list[ControllerRouterHandler] = [
    quick_start,
    guide,
    api_index,
    api_part,
    error_index,
    error_page,
]


def _docs(request: AnyRequest) -> Docs:
    docs: Docs = request.app.state.docs
    return docs
