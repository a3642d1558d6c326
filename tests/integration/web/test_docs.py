"""The documentation: complete, without a dead link, true to the document of the API, and loading nothing of others."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from html import unescape
from typing import Any

import aiohttp
import jsonschema_rs
import msgspec
import pytest
import pytest_asyncio

from api.app import ROUTES
from api.openapi.document import document
from domain.errors import Code
from tests.support.pages import SETTINGS, serving
from web import reference
from web.docs import GUIDES
from web.markdown import headings, html_of

OPENAPI = document(ROUTES, SETTINGS)
WHOLE: dict[str, Any] = msgspec.json.decode(OPENAPI)
OPERATIONS = [(path, method, told) for path, ways in WHOLE["paths"].items() for method, told in ways.items()]
PAGES_MAX = 300


class Shelf:
    """Every page that can be reached from the first one, by path."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.links: set[tuple[str, str]] = set()

    async def read(self, http: aiohttp.ClientSession, client: str) -> None:
        waiting = ["/docs"]
        while waiting:
            assert len(self.pages) < PAGES_MAX
            path = waiting.pop()
            async with http.get(client + path) as answer:
                assert answer.status == 200, (path, [page for page, to in self.links if to.startswith(path)])
                html = self.pages[path] = await answer.text()
                assert answer.headers["Cache-Control"] == "public, max-age=300"
                assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
            for to in map(unescape, re.findall(r'<a [^>]*href="([^"]*)"', html)):
                self.links.add((path, to))
                page = to.partition("#")[0]
                if page.startswith("/docs") and page not in self.pages and page not in waiting:
                    waiting.append(page)

    def text(self, path: str) -> str:
        return unescape(re.sub(r"<[^>]+>", "", self.pages[path]))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shelf() -> AsyncIterator[Shelf]:
    # No page of the documentation needs a database.
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        found = Shelf()
        await found.read(http, client)
        yield found


async def test_every_link_of_every_page_leads_somewhere(shelf: Shelf) -> None:
    for page, to in shelf.links:
        path, _, name = to.partition("#")
        if to == "/v1/openapi.json":
            continue
        assert path in shelf.pages or not path, (page, to)
        if name:
            assert f'id="{name}"' in shelf.pages[path or page], (page, to)
    assert {f"/docs/{name}" for name in GUIDES} <= set(shelf.pages)
    assert {f"/docs/errors/{code.name}" for code in Code} <= set(shelf.pages)


async def test_pages_load_nothing_from_elsewhere_and_nothing_inline(shelf: Shelf) -> None:
    for path, html in shelf.pages.items():
        loaded = re.findall(r'(?:src|srcset|poster|action|<link[^>]*href)="([^"]*)"', html)
        assert loaded
        assert all(each.startswith("/static/") for each in loaded), path
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", html), path
        # Names are of one thing each, so that a link to one of them has one end.
        names = re.findall(r'\sid="([^"]*)"', html)
        assert len(names) == len(set(names)), path
        assert html.count("<h1") == 1, path


@pytest.mark.parametrize(("path", "method", "told"), OPERATIONS, ids=[told["operationId"] for *_, told in OPERATIONS])
async def test_every_operation_is_there_with_all_it_takes_and_answers(
    shelf: Shelf, path: str, method: str, told: dict[str, Any]
) -> None:
    page = f"/docs/api/{told['tags'][0].lower().replace(' ', '-')}"
    html = shelf.pages[page]
    (section,) = re.findall(
        rf'<section class="operation" aria-labelledby="{told["operationId"]}">(.*?)</section>', html, re.S
    )
    text = unescape(re.sub(r"<[^>]+>", "", section))
    assert f"{method.upper()} {path}" in text
    assert told["summary"] in text
    assert f'href="{page}#{told["operationId"]}"' in shelf.pages["/docs/api"]
    for name in (each["name"] for each in told["parameters"] if each["in"] != "path") if "parameters" in told else ():
        assert f"<code>{name}</code>" in section
    for way in told["security"]:
        assert all(f"<code>{scope}</code>" in section for scope in way.get("oauth2", ()))
    for content in told.get("requestBody", {}).get("content", {}).values():
        schema = WHOLE["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
        assert all(f"<code>{name}</code>" in section for name in schema["properties"])
    for status, answer in told["responses"].items():
        assert f"<code>{status}</code>" in section or f"<td>{status}</td>" in section
        for code in answer["content"].get("application/json", {}).get("examples", {}):
            assert f'href="/docs/errors/{code}"' in section
            # And back: the code's page names who answers it.
            assert f"#{told['operationId']}" in shelf.pages[f"/docs/errors/{code}"]


async def test_every_schema_is_there_with_its_fields(shelf: Shelf) -> None:
    html = shelf.pages["/docs/api/schemas"]
    for name, schema in WHOLE["components"]["schemas"].items():
        (section,) = re.findall(rf'<h2 id="{name}">(.*?)(?=<h2 id=|</main>)', html, re.S)
        assert all(f"<code>{field}</code>" in section for field in schema.get("properties", {})), name


def test_every_example_is_let_in_by_the_schema_it_is_an_example_of() -> None:
    reader = reference._Reader(WHOLE)
    tried = 0
    for _, _, told in OPERATIONS:
        for content in told.get("requestBody", {}).get("content", {}).values():
            name = content["schema"]["$ref"].rpartition("/")[2]
            example = msgspec.json.encode(reader.body(name)).replace(b"$ACCOUNT_ID", reference._UUID.encode())
            schema = {"$ref": f"#/components/schemas/{name}", "components": WHOLE["components"]}
            jsonschema_rs.validator_for(schema).validate(msgspec.json.decode(example))
            tried += 1
    assert tried >= 12


async def test_a_page_is_made_once_and_what_is_none_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def reading(openapi: bytes) -> reference.Reference:
        read.append(openapi)
        return reference.Reference({"charges": ("Charges", ())}, ())

    monkeypatch.setattr(reference, "read", reading)
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        for path in ("/docs/api/charges", "/docs/api/charges", "/docs/api/schemas", "/docs"):
            async with http.get(client + path) as answer:
                assert answer.status == 200
        for path in ("/docs/nothing", "/docs/api/nothing", "/docs/api/Charges", "/docs/errors/nothing"):
            async with http.get(client + path) as answer:
                assert answer.status == 404, path
    assert read == [OPENAPI]


def test_nothing_of_a_text_becomes_html_but_what_it_may() -> None:
    assert html_of("# A <b> & `<i>`") == '<h1 id="a-b-i">A &lt;b&gt; &amp; <code>&lt;i&gt;</code></h1>\n'
    assert html_of("a\nb <script>\n\nc") == "<p>a\nb &lt;script&gt;</p>\n<p>c</p>\n"
    assert html_of("- a\n  b\n- c") == "<ul>\n<li>a\nb</li>\n<li>c</li>\n</ul>\n"
    assert html_of("a *b* 2 * 3 * 4 **c**") == "<p>a <em>b</em> 2 * 3 * 4 <strong>c</strong></p>\n"
    assert html_of("[x](javascript:alert(1))") == "<p>[x](javascript:alert(1))</p>\n"
    assert html_of("[x](dual_charges.md#a-b)") == '<p><a href="/docs/dual-charges#a-b">x</a></p>\n'
    assert "<td><code>a|b</code></td>" in html_of("| h |\n|---|\n| `a\\|b` |")
    assert html_of("```http\n<x>") == '<pre tabindex="0"><code>&lt;x&gt;</code></pre>\n'
    text = "## One\n```\n## no heading\n```\n## One\n### Below"
    assert headings(text, level=2) == [("one", "One"), ("one-1", "One")]
    assert re.findall(r'id="([^"]*)"', html_of(text)) == ["one", "one-1", "below"]
