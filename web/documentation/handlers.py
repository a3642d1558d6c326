"""The public documentation in two languages: guides, the API's reference, its events, and a page for every error code.

The guides are the texts of docs/, so that no second copy goes stale. Error answers of the API link to
/docs/errors/<code>; these pages are made from the table of codes, reference and events from the OpenAPI document. A
page cannot change while a process runs, so it is rendered at its first request and kept.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from litestar import MediaType, Request, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response import Redirect, Response
from litestar.types import ControllerRouterHandler
from markupsafe import Markup

from domain.errors import Code
from domain.events import DEFAULT_KINDS
from runtime.settings import Settings
from web.documentation import reference, search
from web.documentation.guides import GUIDES, ROOTS, START, Guide, Language, prefers_portuguese
from web.documentation.markdown import headings, html_of, tabs
from web.documentation.portuguese import in_portuguese, say
from web.documentation.reference import SCHEMAS, Reference
from web.documentation.remedies import REMEDIES
from web.documentation.remedies_pt import REMEDIES_PT
from web.documentation.search import Index
from web.documentation.words import words_of
from web.head import parameter_in
from web.pages import rendered
from web.security_headers import WITH_FORM

_CODES = sorted(Code, key=lambda code: (code.status, code.name))
# Long enough for a reader who goes back and forth, short enough for corrections to appear.
_CACHE_HEADERS = {"Cache-Control": "public, max-age=300"}
_REMEDIES: Final[dict[Language, dict[Code, str]]] = {"en": REMEDIES, "pt": REMEDIES_PT}
_OPENAPI_PATHS: Final[dict[Language, str]] = {"en": "/v1/openapi.json", "pt": "/docs/pt/openapi.json"}
Made = tuple[str, dict[str, object]]
AnyRequest = Request[Any, Any, Any]


class Docs:
    """The documentation of a process, with the pages rendered so far."""

    def __init__(self, settings: Settings, openapi: bytes) -> None:
        self.settings = settings
        self._openapi = openapi
        self._pages: dict[str, str] = {}
        self._references: dict[Language, Reference] = {}
        self._indexes: dict[Language, Index] = {}
        self._openapi_pt = b""

    def reference(self, language: Language) -> Reference | None:
        """The reference; None in a process without an OpenAPI document."""
        if language not in self._references and self._openapi:
            self._references[language] = reference.read(self._openapi, language)
        return self._references.get(language)

    @property
    def openapi_pt(self) -> bytes:
        """The OpenAPI document with its texts in Portuguese; empty in a process without an OpenAPI document."""
        if not self._openapi_pt and self._openapi:
            self._openapi_pt = msgspec.json.encode(in_portuguese(msgspec.json.decode(self._openapi)))
        return self._openapi_pt

    def index(self, language: Language) -> Index:
        if language not in self._indexes:
            self._indexes[language] = Index(search.entries(self.reference, language, start_of(language)))
        return self._indexes[language]

    def page(self, path: str, make: Callable[[], Made], language: Language) -> Response[str]:
        """The page at `path`, rendered once; `make` returns its template and values. The pages kept are bounded,
        because callers pass known paths only."""
        html = self._pages.get(path)
        if html is None:
            html = self._pages[path] = self.made(path, make, language)
        return Response(html, headers=_CACHE_HEADERS, media_type=MediaType.HTML)

    def made(self, path: str, make: Callable[[], Made], language: Language) -> str:
        """The page at `path`, rendered and not kept."""
        template, values = make()
        return rendered(template, {**self._navigation_values(path, language), **values})

    def _navigation_values(self, path: str, language: Language) -> dict[str, object]:
        """The values of every page's navigation."""
        api_reference = self.reference(language)
        return {
            "here": path,
            "lang": "pt-BR" if language == "pt" else "en",
            "t": words_of(language),
            "root": ROOTS[language],
            "start": start_of(language),
            "other": _path_in_other_language(path, language),
            "base_url": self.settings.base_url,
            "guides": [each for each in GUIDES[language].values() if each.name != START],
            "tags": {name: title for name, (title, _) in api_reference.tags.items()}
            if api_reference is not None
            else {},
            "sections": [],
            "document": _OPENAPI_PATHS[language],
            "code_tabs": _code_tabs,
        }

    def text(self, guide: Guide) -> str:
        text = guide.text
        for place in ("base_url", "app_url", "docs_url"):
            text = text.replace(f"{{{place}}}", getattr(self.settings, place))
        return text


def _code_tabs(group: str, samples: Sequence[tuple[str, str]], what: str) -> Markup:
    return Markup(tabs(group, samples, what))  # noqa: S704 - tabs escapes what it is given


def start_of(language: Language) -> str:
    """The address of the first page in one language. (/docs itself chooses by the reader's Accept-Language.)"""
    return "/docs/en" if language == "en" else ROOTS[language]


def _path_in_other_language(path: str, language: Language) -> str:
    """The address of the same page in the other language."""
    if language == "en":
        return ROOTS["pt"] if path == start_of("en") else path.replace("/docs", ROOTS["pt"], 1)
    return start_of("en") if path == ROOTS["pt"] else path.replace(ROOTS["pt"], "/docs", 1)


def _guide_page(docs: Docs, guide: Guide, path: str, language: Language) -> Response[str]:
    def make() -> Made:
        text = docs.text(guide)
        content = Markup(html_of(text, ROOTS[language]))  # noqa: S704 - html_of lets nothing of the text through as HTML
        return "docs_text.html", {"title": guide.title, "content": content, "sections": headings(text)}

    return docs.page(path, make, language)


@get("/docs")
async def first_page(request: AnyRequest) -> Response[Any]:
    """The quick start in the reader's language. The page in each language has an address of its own too."""
    language: Language = "pt" if prefers_portuguese(request.headers.get("accept-language", "")) else "en"
    headers = {**_CACHE_HEADERS, "Vary": "Accept-Language"}
    if language == "pt":
        return Redirect(ROOTS["pt"], status_code=302, headers=headers)
    answer = _quick_start(request, "en")
    return Response(answer.content, headers=headers, media_type=MediaType.HTML)


def _quick_start(request: AnyRequest, language: Language) -> Response[str]:
    return _guide_page(_docs(request), GUIDES[language][START], start_of(language), language)


def _guide(request: AnyRequest, name: str, language: Language) -> Response[str]:
    guide = GUIDES[language].get(name)
    if guide is None or name == START:
        raise NotFoundException
    return _guide_page(_docs(request), guide, f"{ROOTS[language]}/{name}", language)


def _api_index(request: AnyRequest, language: Language) -> Response[str]:
    docs = _docs(request)
    api_reference = docs.reference(language)
    if api_reference is None:
        raise NotFoundException
    return docs.page(f"{ROOTS[language]}/api", lambda: ("docs_api.html", {"reference": api_reference}), language)


def _api_part(request: AnyRequest, name: str, language: Language) -> Response[str]:
    docs = _docs(request)
    api_reference = docs.reference(language)
    path = f"{ROOTS[language]}/api/{name}"
    if api_reference is not None and name == SCHEMAS:
        return docs.page(path, lambda: ("docs_schemas.html", {"schemas": api_reference.schemas}), language)
    if api_reference is None or name not in api_reference.tags:
        raise NotFoundException
    title, operations = api_reference.tags[name]
    sections = [(each.id, each.summary) for each in operations]
    values: dict[str, object] = {"title": title, "operations": operations, "sections": sections}
    return docs.page(path, lambda: ("docs_operations.html", values), language)


@get("/docs/pt/openapi.json")
async def openapi_pt(request: AnyRequest) -> Response[bytes]:
    """The document of GET /v1/openapi.json, with its texts in Portuguese."""
    document = _docs(request).openapi_pt
    if not document:
        raise NotFoundException
    return Response(document, headers=_CACHE_HEADERS, media_type=MediaType.JSON)


def _events(request: AnyRequest, language: Language) -> Response[str]:
    docs = _docs(request)
    api_reference = docs.reference(language)
    if api_reference is None:
        raise NotFoundException

    def make() -> Made:
        events_and_default = [(each, each.kind in DEFAULT_KINDS) for each in api_reference.events]
        return "docs_events.html", {
            "events": events_and_default,
            "sections": [(each.kind, each.kind) for each in api_reference.events],
        }

    return docs.page(f"{ROOTS[language]}/events", make, language)


def _error_index(request: AnyRequest, language: Language) -> Response[str]:
    return _docs(request).page(f"{ROOTS[language]}/errors", lambda: ("docs_errors.html", {"codes": _CODES}), language)


def _error(request: AnyRequest, name: str, language: Language) -> Response[str]:
    code = Code.__members__.get(name)
    if code is None:
        raise NotFoundException
    docs = _docs(request)

    def make() -> Made:
        api_reference = docs.reference(language)
        given_by = [
            (tag, each)
            for tag, (_, operations) in (api_reference.tags if api_reference is not None else {}).items()
            for each in operations
            if any(refusal.code == name for refusal in each.refusals)
        ]
        values: dict[str, object] = {"code": code, "remedy": _REMEDIES[language][code], "given_by": given_by}
        return "docs_error.html", values | {"meaning": say(code.message) if language == "pt" else code.message}

    return docs.page(f"{ROOTS[language]}/errors/{name}", make, language)


def _search(request: AnyRequest, language: Language) -> Response[str]:
    """The search page; with ?q= the entries that hold all its words. Only the page without a query is kept, because the
    number of queries is unbounded."""
    docs, path = _docs(request), f"{ROOTS[language]}/search"
    query = (parameter_in(request.scope, "q") or "")[: search.ASKED_MAX].strip()

    def make() -> Made:
        listed = docs.index(language).listed(query)
        values: dict[str, object] = {"asked": query, "entries": listed, "count": sum(each.found for each in listed)}
        if query:
            values["other"] = f"{_path_in_other_language(path, language)}?{urlencode({'q': query})}"
        return "docs_search.html", values

    html = docs.made(path, make, language) if query else docs.page(path, make, language).content
    return Response(html, headers={**_CACHE_HEADERS, **WITH_FORM}, media_type=MediaType.HTML)


def _page_handler(
    path: str, show: Callable[[AnyRequest, Language], Response[str]], language: Language
) -> HTTPRouteHandler:
    async def handle(request: AnyRequest) -> Response[str]:
        return show(request, language)

    return get(path)(handle)


def _named_page_handler(
    path: str, show: Callable[[AnyRequest, str, Language], Response[str]], language: Language
) -> HTTPRouteHandler:
    """The handler of one page for each name."""

    async def handle(request: AnyRequest, name: FromPath[str]) -> Response[str]:
        return show(request, name, language)

    return get(f"{path}/{{name:str}}")(handle)


def _handlers_in(language: Language) -> list[ControllerRouterHandler]:
    root = ROOTS[language]
    return [
        _page_handler(start_of(language), _quick_start, language),
        _named_page_handler(root, _guide, language),
        _page_handler(f"{root}/api", _api_index, language),
        _named_page_handler(f"{root}/api", _api_part, language),
        _page_handler(f"{root}/events", _events, language),
        _page_handler(f"{root}/errors", _error_index, language),
        _named_page_handler(f"{root}/errors", _error, language),
        _page_handler(f"{root}/search", _search, language),
    ]


DOCS_HANDLERS: Final[list[ControllerRouterHandler]] = [first_page, openapi_pt, *_handlers_in("en"), *_handlers_in("pt")]


def _docs(request: AnyRequest) -> Docs:
    docs: Docs = request.app.state.docs
    return docs
