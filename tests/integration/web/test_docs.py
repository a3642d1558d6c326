"""The documentation: complete, without dead links, true to the OpenAPI document, loading nothing from other hosts."""

import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema_rs
import msgspec
import pytest
import pytest_asyncio

from api.app import ROUTES
from api.openapi.document import document
from domain.errors import Code
from tests.support.browser import CHROMIUM
from tests.support.pages import SETTINGS, browsing, serving, until
from web.documentation import portuguese, reference
from web.documentation.guides import GUIDES, ROOTS, START, TEXTS, Language, prefers_portuguese
from web.documentation.markdown import headings, html_of
from web.documentation.search import Index, entries

OPENAPI = document(ROUTES, SETTINGS)
WHOLE: dict[str, Any] = msgspec.json.decode(OPENAPI)
DOCUMENTS: dict[Language, str] = {"en": "/v1/openapi.json", "pt": "/docs/pt/openapi.json"}
OPERATIONS = [(path, method, told) for path, ways in WHOLE["paths"].items() for method, told in ways.items()]
PAGES_MAX = 400


@cache
def translated() -> dict[str, Any]:
    """The OpenAPI document in Portuguese, made on first use: a missing translation fails a test, not the import."""
    return dict(portuguese.in_portuguese(WHOLE))


class Documentation:
    """Every page that can be reached from the first one, by path."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.links: set[tuple[str, str]] = set()
        self.files: dict[str, bytes] = {}
        self.types: dict[str, str] = {}

    async def read(self, http: aiohttp.ClientSession, client: str) -> None:
        waiting = ["/docs"]
        while waiting:
            assert len(self.pages) < PAGES_MAX
            path = waiting.pop()
            async with http.get(client + path) as answer:
                assert answer.status == 200, (path, [page for page, to in self.links if to.startswith(path)])
                self.types[path] = answer.headers["Content-Type"]
                if "Content-Disposition" in answer.headers:
                    self.files[path] = await answer.read()
                    continue
                html = self.pages[path] = await answer.text()
                assert answer.headers["Cache-Control"] == "public, max-age=300"
                assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
            for to in map(unescape, re.findall(r'<a [^>]*href="([^"]*)"', html)):
                self.links.add((path, to))
                page = to.partition("#")[0]
                known = (*self.pages, *self.files, *waiting)
                if page.startswith("/docs") and page not in (*known, *DOCUMENTS.values()):
                    waiting.append(page)

    def text(self, path: str) -> str:
        return unescape(re.sub(r"<[^>]+>", "", self.pages[path]))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def docs() -> AsyncIterator[Documentation]:
    # No page of the documentation needs a database.
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        found = Documentation()
        await found.read(http, client)
        yield found


async def test_pages_and_downloads_have_their_content_types(docs: Documentation) -> None:
    assert {docs.types[path] for path in docs.pages} == {"text/html; charset=utf-8"}
    assert {path.rpartition(".")[2] for path in docs.files} == {"py", "mjs", "php"}
    assert {docs.types[path] for path in docs.files} == {"text/plain; charset=utf-8"}


async def test_every_link_of_every_page_leads_somewhere(docs: Documentation) -> None:
    for page, to in docs.links:
        path, _, name = to.partition("#")
        if to in DOCUMENTS.values():
            continue
        assert path in docs.pages or path in docs.files or not path, (page, to)
        if name:
            assert f'id="{name}"' in docs.pages[path or page], (page, to)
    for language, root in ROOTS.items():
        assert {f"{root}/{name}" for name in GUIDES[language] if name != START} <= set(docs.pages)
        assert {f"{root}/{name}" for name in ("events", "errors", "search", "api", "api/schemas")} <= set(docs.pages)
        assert f'href="{DOCUMENTS[language]}"' in docs.pages[f"{root}/api"]
        assert {f"{root}/errors/{code.name}" for code in Code} <= set(docs.pages)


async def test_pages_load_nothing_from_other_hosts_and_nothing_inline(docs: Documentation) -> None:
    for path, html in docs.pages.items():
        loaded = re.findall(r'(?:src|srcset|poster|action|<link[^>]*href)="([^"]*)"', html)
        assert loaded
        assert all(each.startswith("/static/") for each in loaded), path
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", html), path
        # Ids are unique, so that a link to one of them has one target.
        names = re.findall(r'\sid="([^"]*)"', html)
        assert len(names) == len(set(names)), path
        assert html.count("<h1") == 1, path


@pytest.mark.parametrize("root", ROOTS.values())
@pytest.mark.parametrize(("path", "method", "told"), OPERATIONS, ids=[told["operationId"] for *_, told in OPERATIONS])
async def test_every_operation_is_documented_with_its_parameters_scopes_body_and_answers(
    docs: Documentation, root: str, path: str, method: str, told: dict[str, Any]
) -> None:
    page = f"{root}/api/{told['tags'][0].lower().replace(' ', '-')}"
    html = docs.pages[page]
    (section,) = re.findall(
        rf'<section class="operation" aria-labelledby="{told["operationId"]}">(.*?)</section>', html, re.S
    )
    text = unescape(re.sub(r"<[^>]+>", "", section))
    assert f"{method.upper()} {path}" in text
    assert (told["summary"] if root == ROOTS["en"] else portuguese.say(told["summary"])) in text
    assert f'href="{page}#{told["operationId"]}"' in docs.pages[f"{root}/api"]
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
            assert f'href="{root}/errors/{code}"' in section
            # And back: the page of the code names the operations that answer it.
            assert f"#{told['operationId']}" in docs.pages[f"{root}/errors/{code}"]


@pytest.mark.parametrize("root", ROOTS.values())
async def test_every_schema_is_documented_with_its_fields(docs: Documentation, root: str) -> None:
    html = docs.pages[f"{root}/api/schemas"]
    for name, schema in WHOLE["components"]["schemas"].items():
        (section,) = re.findall(rf'<h2 id="{name}">(.*?)(?=<h2 id=|</main>)', html, re.S)
        assert all(f"<code>{field}</code>" in section for field in schema.get("properties", {})), name


def test_every_example_of_a_body_is_valid_by_its_schema() -> None:
    reader = reference._Reader(WHOLE, "en")
    tried = 0
    for _, _, told in OPERATIONS:
        for content in told.get("requestBody", {}).get("content", {}).values():
            name = content["schema"]["$ref"].rpartition("/")[2]
            example = msgspec.json.encode(reader.body(name)).replace(b"$ACCOUNT_ID", reference._UUID.encode())
            schema = {"$ref": f"#/components/schemas/{name}", "components": WHOLE["components"]}
            jsonschema_rs.validator_for(schema).validate(msgspec.json.decode(example))
            tried += 1
    assert tried >= 12


async def test_the_reference_is_built_once_per_language_and_unknown_pages_answer_404(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[Language] = []

    def record_language(openapi: bytes, language: Language) -> reference.Reference:
        read.append(language)
        assert openapi == OPENAPI
        return reference.Reference({"charges": ("Charges", ())}, ())

    monkeypatch.setattr(reference, "read", record_language)
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        for path in ("/docs/api/charges", "/docs/api/charges", "/docs/api/schemas", "/docs", "/docs/pt"):
            async with http.get(client + path) as answer:
                assert answer.status == 200
        for path in (
            "/docs/nothing",
            "/docs/pt/nothing",
            "/docs/pt/errors/nothing",
            "/docs/pt/api/nothing",
            "/docs/quick-start",
            "/docs/api/nothing",
            "/docs/api/Charges",
            "/docs/errors/nothing",
        ):
            async with http.get(client + path) as answer:
                assert answer.status == 404, path
    assert read == ["en", "pt"]


def test_only_the_supported_markdown_becomes_html_and_the_rest_is_escaped() -> None:
    assert html_of("# A <b> & `<i>`") == '<h1 id="a-b-i">A &lt;b&gt; &amp; <code>&lt;i&gt;</code></h1>\n'
    assert 'aria-label="Link to b &amp; c"' in html_of("## b & `c`")
    assert 'aria-label="Link para b"' in html_of("## b", ROOTS["pt"])
    assert html_of("a\nb <script>\n\nc") == "<p>a\nb &lt;script&gt;</p>\n<p>c</p>\n"
    assert html_of("- a\n  b\n- c") == "<ul>\n<li>a\nb</li>\n<li>c</li>\n</ul>\n"
    assert html_of("a *b* 2 * 3 * 4 **c**") == "<p>a <em>b</em> 2 * 3 * 4 <strong>c</strong></p>\n"
    assert html_of("[x](javascript:alert(1))") == "<p>[x](javascript:alert(1))</p>\n"
    assert html_of("[x](dual_charges.md#a-b)") == '<p><a href="/docs/dual-charges#a-b">x</a></p>\n'
    assert "<td><code>a|b</code></td>" in html_of("| h |\n|---|\n| `a\\|b` |")
    assert html_of("```http\n<x>") == '<pre tabindex="0"><code>&lt;x&gt;</code></pre>\n'
    text = "## One\n```\n## no heading\n```\n## One\n### Below"
    assert headings(text) == [("one", "One"), ("one-1", "One")]
    assert re.findall(r'id="([^"]*)"', html_of(text)) == ["one", "one-1", "below"]


def test_an_example_in_several_languages_can_be_chosen_without_a_script() -> None:
    html = html_of("```sh tab\na <b>\n```\n\n```php tab\n<?php\n```\n\ntext\n\n```sh tab\nc\n```")
    assert re.findall(r'name="([^"]*)" id="([^"]*)" data-language="([^"]*)"( checked)?', html) == [
        ("example-1", "example-1-0", "curl", " checked"), ("example-1", "example-1-1", "PHP", ""),
        ("example-2", "example-2-0", "curl", " checked"),
    ]  # fmt: skip
    assert "<code>a &lt;b&gt;</code>" in html
    assert html_of("[x](webhooks.md#a) ## Ação", "/docs/pt").count('href="/docs/pt/webhooks#a"') == 1
    assert headings("## O relógio do teste") == [("o-relogio-do-teste", "O relógio do teste")]


@pytest.mark.parametrize("name", GUIDES["en"])
def test_a_guide_in_portuguese_has_the_code_and_tables_of_the_english_one(name: str) -> None:
    """So a test of the examples in one language covers both."""
    english, portuguese = GUIDES["en"][name].text, GUIDES["pt"][name].text
    fences = re.compile(r"^```.*?^```$", re.M | re.S)
    assert fences.findall(portuguese) == fences.findall(english)
    for shape in (r"^## ", r"^### ", r"^- ", r"^[0-9]\. "):
        assert len(re.findall(shape, portuguese, re.M)) == len(re.findall(shape, english, re.M)), shape
    assert re.findall(r"^\| (`[^|]*?`) \|", portuguese, re.M)[:3] == re.findall(r"^\| (`[^|]*?`) \|", english, re.M)[:3]
    # Paths of the API are in both, and every code is linked to its page in the same language.
    assert set(re.findall(r"`(/?v1/[^`]*)`", portuguese)) == set(re.findall(r"`(/?v1/[^`]*)`", english))
    assert not re.findall(r"\]\(/docs/(?:errors|events)", portuguese)


def test_guides_for_merchants_mention_nothing_that_only_operators_use() -> None:
    for guides in GUIDES.values():
        for guide in guides.values():
            found = re.findall(
                r"\bquita (?:merchant|webhook|bank|pix|staff|serve)\b|SMTP_URL|_GRACE_S|/plataforma|`make up`",
                guide.text,
            )
            assert found == [], guide.name
    assert {path.name for path in TEXTS.glob("pt/*.md")} == {f"{name.replace('-', '_')}.md" for name in GUIDES["pt"]}


async def test_the_first_page_follows_the_accept_language_of_the_reader() -> None:
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        for accepted, where in (("pt-BR,pt;q=0.9,en;q=0.8", "/docs/pt"), ("en-US,pt;q=0.5", ""), ("de", ""), ("", "")):
            async with http.get(
                client + "/docs", headers={"Accept-Language": accepted}, allow_redirects=False
            ) as answer:
                assert answer.headers.get("Location", "") == where, accepted
                assert answer.headers["Vary"] == "Accept-Language"
                assert "Set-Cookie" not in answer.headers
        for path, lang in (
            ("/docs/pt", "pt-BR"),
            ("/docs/en", "en"),
            ("/docs/pt/webhooks", "pt-BR"),
            ("/docs/api", "en"),
            ("/docs/pt/api", "pt-BR"),
        ):
            async with http.get(client + path, headers={"Accept-Language": "pt" if lang == "en" else "en"}) as answer:
                html = await answer.text()
                assert f'<html lang="{lang}">' in html, path
                copied = 'data-copy="Copy"' if lang == "en" else 'data-copy="Copiar"'
                assert copied in html
                assert f'hreflang="{"en" if lang == "pt-BR" else "pt-BR"}"' in html
    assert not prefers_portuguese("pt;q=x, en")
    assert not prefers_portuguese("," * 10_000)


async def test_every_kind_of_event_is_documented_with_an_example_body(docs: Documentation) -> None:
    for path in ("/docs/events", "/docs/pt/events"):
        html = docs.pages[path]
        for kind, ways in WHOLE["webhooks"].items():
            (section,) = re.findall(rf'<h2 id="{re.escape(kind)}">(.*?)(?=<h2 id=|</main>)', html, re.S)
            shown = msgspec.json.decode(unescape(re.findall(r"<code>(.*?)</code>", section, re.S)[-1]))
            assert shown == ways["post"]["requestBody"]["content"]["application/json"]["example"]
        assert html.count("<td>always</td>" if path == "/docs/events" else "<td>sempre</td>") == 2


async def test_the_search_lists_every_section_and_links_to_it(docs: Documentation) -> None:
    for path in ("/docs/search", "/docs/pt/search"):
        found = re.findall(r'<li [^>]*data-words="[^"]*"><a href="([^"]*)">', docs.pages[path])
        assert len(found) == len(set(found)) > 150
        root = path.removesuffix("/search")
        assert {to for to in found if "/api/" in to} == {
            f"{root}/api/{told['tags'][0].lower().replace(' ', '-')}#{told['operationId']}" for *_, told in OPERATIONS
        }
        # A section in one language is also found by the words of the other.
        assert "<li hidden" not in docs.pages[path]
        words = {
            to: said for said, to in re.findall(r'<li [^>]*data-words="([^"]*)"><a href="([^"]*)">', docs.pages[path])
        }
        for of_both in ("refund a paid charge", "devolver uma cobrança paga"):
            assert of_both in words[f"{root}/api/refunds#createRefund"]
        for of_both in ("no longer pending", "não está mais pendente", "foi paga, cancelada", "paid, cancelled"):
            assert of_both in words[f"{root}/errors/CHARGE_NOT_PENDING"]


async def search(http: aiohttp.ClientSession, address: str, asked: str) -> tuple[list[str], str]:
    """The links that the page of a query shows without a script, and the page."""
    async with http.get(address, params={"q": asked}) as answer:
        assert answer.status == 200
        assert "form-action 'self'" in answer.headers["Content-Security-Policy"]
        html = await answer.text()
    items = re.findall(r'<li ([^>]*)data-words="[^"]*"><a href="([^"]*)">', html)
    assert len(items) > 150, "the other sections are in the page, hidden, for the script"
    return [to for attributes, to in items if " hidden" not in f" {attributes}"], html


async def test_a_query_in_the_url_is_searched_for_without_a_script() -> None:
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        whole: list[str] = []
        for root in ("/docs", "/docs/pt"):
            found, html = await search(http, f"{client}{root}/search", "multa")
            assert (
                f"{root}/boletos#{'fine-interest-and-discount' if root == '/docs' else 'multa-juros-e-desconto'}"
                in found
            )
            assert 0 < len(found) < 20
            assert 'name="q" value="multa"' in html
            assert f">{len(found)} {'found' if root == '/docs' else 'encontrados'}</p>" in html
            assert '<meta name="robots" content="noindex">' in html
            other = "/docs/search" if root == "/docs/pt" else "/docs/pt/search"
            assert f'class="docs-other" href="{other}?q=multa"' in html
            whole, html = await search(http, f"{client}{root}/search", "  ")
            assert len(whole) > 150
            assert '<p id="search-found" hidden></p>' in html
        # Every word has to match, with or without accents, whatever was searched for before.
        found, _ = await search(http, f"{client}/docs/pt/search", "DEVOLVER cobranca")
        assert "/docs/pt/api/refunds#createRefund" in found
        found, html = await search(http, f"{client}/docs/pt/search", "multa <zzz>")
        assert found == []
        assert "Nada encontrado para “multa &lt;zzz&gt;”." in html
        assert 'value="multa &lt;zzz&gt;"' in html
        found, html = await search(http, f"{client}/docs/search", "z" * 5_000)
        assert (found, "Nothing found for “" + "z" * 100 + "”." in html) == ([], True)


@pytest.mark.parametrize("asked", ["segunda via", "2ª via", "2a via", "Segunda  VIA"])
async def test_an_ordinal_is_found_in_words_and_in_figures(asked: str) -> None:
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        found, _ = await search(http, f"{client}/docs/pt/search", asked)
    assert found[0] == "/docs/pt/payer-page#2a-via-de-um-boleto-vencido", "a match in the title comes first"


@pytest.mark.parametrize(
    ("language", "asked", "first"),
    [
        ("pt", "estornar", "refunds"),
        ("pt", "Mensalidades", "schedules"),
        ("pt", "taxa", "fees"),
        ("pt", "notificação", "webhooks"),
        ("pt", "CNAB", "reconciliation"),
        ("en", "payout", "withdrawals"),
        ("en", "subscriptions", "schedules"),
    ],
)
def test_what_merchants_call_by_another_name_is_found(language: Language, asked: str, first: str) -> None:
    index = Index(entries(lambda _: None, language, ROOTS[language]))
    assert index.listed(asked)[0].entry.path.partition("#")[0] == f"{ROOTS[language]}/{first}"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
async def test_the_script_filters_the_list_as_the_server_does(tmp_path: Path) -> None:
    shown = "[...document.querySelectorAll('#entries > li:not([hidden]) a')].map((a) => a.getAttribute('href')).join()"
    said = "document.getElementById('search-found').textContent"
    async with (
        serving(object(), lambda: datetime.now(UTC)) as client,  # type: ignore[arg-type]
        aiohttp.ClientSession() as http,
        browsing(f"{client}/docs/pt/search?q=multa", tmp_path) as evaluate,
    ):
        found, _ = await search(http, f"{client}/docs/pt/search", "multa")
        await until(evaluate, "document.getElementById('announcement').textContent", f"{len(found)} encontrados")
        assert await evaluate("document.getElementById('docs-search').value") == "multa"
        assert await evaluate(shown) == ",".join(found)
        for asked in ("segunda via", "2ª via", "devolver cobrança", "zzz"):
            found, _ = await search(http, f"{client}/docs/pt/search", asked)
            await evaluate(f"document.getElementById('docs-search').value = '{asked}'")
            await evaluate("document.getElementById('docs-search').dispatchEvent(new Event('input'))")
            assert await evaluate(shown) == ",".join(found)
            assert str(await evaluate(said)).startswith(
                f"{len(found)} encontrados" if found else "Nada encontrado para “zzz”"
            )
        # From the page of one query to the page of another.
        await evaluate("document.getElementById('docs-search').value = 'juros'")
        await evaluate("document.querySelector('.docs-search button').click()")
        await until(evaluate, "location.search + document.readyState", "?q=juroscomplete")
        found, _ = await search(http, f"{client}/docs/pt/search", "juros")
        assert await evaluate(shown) == ",".join(found)


def texts(document: Any, *, names: bool = False) -> Iterator[str]:
    """Every description and summary of a document. `names`: the keys here are names of fields."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if key in ("description", "summary") and isinstance(value, str) and not names:
            yield value
        elif isinstance(value, dict | list) and (names or key not in ("example", "examples")):
            yield from texts(value, names=key == "properties")


def test_every_text_of_the_reference_is_translated_and_no_translation_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()

    class Recording(dict[str, str]):
        def __getitem__(self, english: str) -> str:
            used.add(english)
            return super().__getitem__(english)

    monkeypatch.setattr(portuguese, "TEXTS", Recording(portuguese.TEXTS))
    untranslated = []
    for text in [*texts(WHOLE), *(tag["name"] for tag in WHOLE["tags"]), *(code.message for code in Code)]:
        try:
            portuguese.say(text)
        except KeyError as missing:
            untranslated.append(missing.args[0])
    assert untranslated == []
    assert portuguese.TEXTS.keys() - used == set(), "stale translations: the document no longer has these texts"


def test_the_portuguese_document_differs_from_the_english_one_in_its_texts_only() -> None:
    def without_texts(document: Any, *, names: bool = False) -> Any:
        if isinstance(document, list):
            return [without_texts(each) for each in document]
        if not isinstance(document, dict):
            return document
        return {
            key: without_texts(value, names=key == "properties")
            for key, value in document.items()
            if names or key not in ("description", "summary", "x-displayName")
        }

    assert without_texts(translated()) == without_texts(WHOLE)
    assert [tag["x-displayName"] for tag in translated()["tags"]][:3] == [
        "Autenticação",
        "Cobranças",
        "Ambiente de teste",
    ]
    # Names of the API, codes and numbers are the same in either language.
    for english, said in portuguese.TEXTS.items():
        for shape in (r"`[^`]+`", r"\b[a-z]+(?:_[a-z]+)+\b", r"\b[A-Z]+(?:_[A-Z]+)+\b", r"/v1/\S+"):
            assert sorted(re.findall(shape, english)) == sorted(re.findall(shape, said)), english


async def test_portuguese_pages_have_no_english_text_but_the_messages_of_the_api(docs: Documentation) -> None:
    english = {portuguese_of: text for text in portuguese.TEXTS if (portuguese_of := portuguese.TEXTS[text]) != text}
    sentences = [text for text in english.values() if len(text) > 12]
    pages = [path for path in docs.pages if path.startswith(("/docs/pt/api", "/docs/pt/events", "/docs/pt/errors"))]
    assert len(pages) > 60
    for path in pages:
        html = re.sub(r'<dd lang="en">.*?</dd>', "", docs.pages[path])
        text = unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<pre.*?</pre>", "", html, flags=re.S)))
        text = re.sub(r"\s+", " ", text)
        assert [each for each in sentences if f" {each} " in text] == [], path


async def test_the_portuguese_document_is_served_beside_the_english_one() -> None:
    async with (
        serving(object(), lambda: datetime.now(UTC)) as client,  # type: ignore[arg-type]
        aiohttp.ClientSession() as http,
        http.get(client + DOCUMENTS["pt"]) as answer,
    ):
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert await answer.json() == translated()


def test_every_sample_call_of_the_reference_is_a_valid_program_in_each_language(tmp_path: Path) -> None:
    found = reference.read(OPENAPI)
    operations = [each for _, of_tag in found.tags.values() for each in of_tag]
    assert len(operations) == len(OPERATIONS)
    # Each sample is put in a function of its own, so that one process checks all samples of a language.
    node, php = [], ["<?php"]
    for each in operations:
        samples = dict(each.samples)
        assert list(samples) == ["curl", "Python", "Node.js", "PHP"]
        compile(samples["Python"], each.id, "exec")
        # An import cannot stand inside a function.
        rest = re.sub(r"^import .*\n", "", samples["Node.js"])
        node.append(f"async function {each.id}() {{\n{rest}\n}}")
        php.append(f"function {each.id}() {{\n{samples['PHP'].removeprefix('<?php')}\n}}")
    for name, program, words in (("calls.mjs", node, ("node", "--check")), ("calls.php", php, ("php", "-l"))):
        if shutil.which(words[0]) is None:
            continue
        (tmp_path / name).write_text("\n".join(program), encoding="utf-8")
        run = subprocess.run([*words, str(tmp_path / name)], capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 0, run.stderr + run.stdout
