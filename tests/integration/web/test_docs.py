"""The documentation: complete, without a dead link, true to the document of the API, and loading nothing of others."""

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
from tests.support.pages import CHROMIUM, SETTINGS, browsing, serving, until
from web.documentation import portuguese, reference
from web.documentation.guides import GUIDES, ROOTS, START, TEXTS, Language, prefers_portuguese
from web.documentation.markdown import headings, html_of

OPENAPI = document(ROUTES, SETTINGS)
WHOLE: dict[str, Any] = msgspec.json.decode(OPENAPI)
DOCUMENTS: dict[Language, str] = {"en": "/v1/openapi.json", "pt": "/docs/pt/openapi.json"}
OPERATIONS = [(path, method, told) for path, ways in WHOLE["paths"].items() for method, told in ways.items()]
PAGES_MAX = 400


@cache
def translated() -> dict[str, Any]:
    """The document in Portuguese; not made of one that is not all translated before that is said."""
    return dict(portuguese.in_portuguese(WHOLE))


class Shelf:
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
async def shelf() -> AsyncIterator[Shelf]:
    # No page of the documentation needs a database.
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        found = Shelf()
        await found.read(http, client)
        yield found


async def test_what_is_downloaded_and_what_is_shown_say_what_they_are(shelf: Shelf) -> None:
    assert {shelf.types[path] for path in shelf.pages} == {"text/html; charset=utf-8"}
    assert {path.rpartition(".")[2] for path in shelf.files} == {"py", "mjs", "php"}
    assert {shelf.types[path] for path in shelf.files} == {"text/plain; charset=utf-8"}


async def test_every_link_of_every_page_leads_somewhere(shelf: Shelf) -> None:
    for page, to in shelf.links:
        path, _, name = to.partition("#")
        if to in DOCUMENTS.values():
            continue
        assert path in shelf.pages or path in shelf.files or not path, (page, to)
        if name:
            assert f'id="{name}"' in shelf.pages[path or page], (page, to)
    for language, root in ROOTS.items():
        assert {f"{root}/{name}" for name in GUIDES[language] if name != START} <= set(shelf.pages)
        assert {f"{root}/{name}" for name in ("events", "errors", "search", "api", "api/schemas")} <= set(shelf.pages)
        assert f'href="{DOCUMENTS[language]}"' in shelf.pages[f"{root}/api"]
        assert {f"{root}/errors/{code.name}" for code in Code} <= set(shelf.pages)


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


@pytest.mark.parametrize("root", ROOTS.values())
@pytest.mark.parametrize(("path", "method", "told"), OPERATIONS, ids=[told["operationId"] for *_, told in OPERATIONS])
async def test_every_operation_is_there_with_all_it_takes_and_answers(
    shelf: Shelf, root: str, path: str, method: str, told: dict[str, Any]
) -> None:
    page = f"{root}/api/{told['tags'][0].lower().replace(' ', '-')}"
    html = shelf.pages[page]
    (section,) = re.findall(
        rf'<section class="operation" aria-labelledby="{told["operationId"]}">(.*?)</section>', html, re.S
    )
    text = unescape(re.sub(r"<[^>]+>", "", section))
    assert f"{method.upper()} {path}" in text
    assert (told["summary"] if root == ROOTS["en"] else portuguese.say(told["summary"])) in text
    assert f'href="{page}#{told["operationId"]}"' in shelf.pages[f"{root}/api"]
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
            # And back: the code's page names who answers it.
            assert f"#{told['operationId']}" in shelf.pages[f"{root}/errors/{code}"]


@pytest.mark.parametrize("root", ROOTS.values())
async def test_every_schema_is_there_with_its_fields(shelf: Shelf, root: str) -> None:
    html = shelf.pages[f"{root}/api/schemas"]
    for name, schema in WHOLE["components"]["schemas"].items():
        (section,) = re.findall(rf'<h2 id="{name}">(.*?)(?=<h2 id=|</main>)', html, re.S)
        assert all(f"<code>{field}</code>" in section for field in schema.get("properties", {})), name


def test_every_example_is_let_in_by_the_schema_it_is_an_example_of() -> None:
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


async def test_a_page_is_made_once_and_what_is_none_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Language] = []

    def reading(openapi: bytes, language: Language) -> reference.Reference:
        read.append(language)
        assert openapi == OPENAPI
        return reference.Reference({"charges": ("Charges", ())}, ())

    monkeypatch.setattr(reference, "read", reading)
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


def test_nothing_of_a_text_becomes_html_but_what_it_may() -> None:
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
    assert headings(text, level=2) == [("one", "One"), ("one-1", "One")]
    assert re.findall(r'id="([^"]*)"', html_of(text)) == ["one", "one-1", "below"]


def test_an_example_in_several_languages_is_chosen_without_a_script() -> None:
    html = html_of("```sh tab\na <b>\n```\n\n```php tab\n<?php\n```\n\ntext\n\n```sh tab\nc\n```")
    assert re.findall(r'name="([^"]*)" id="([^"]*)" data-language="([^"]*)"( checked)?', html) == [
        ("example-1", "example-1-0", "curl", " checked"), ("example-1", "example-1-1", "PHP", ""),
        ("example-2", "example-2-0", "curl", " checked"),
    ]  # fmt: skip
    assert "<code>a &lt;b&gt;</code>" in html
    assert html_of("[x](webhooks.md#a) ## Ação", "/docs/pt").count('href="/docs/pt/webhooks#a"') == 1
    assert headings("## O relógio do teste", level=2) == [("o-relogio-do-teste", "O relógio do teste")]


@pytest.mark.parametrize("name", GUIDES["en"])
def test_a_guide_in_portuguese_has_the_code_and_tables_of_the_english_one(name: str) -> None:
    """So what is tried of one is tried of both."""
    english, portuguese = GUIDES["en"][name].text, GUIDES["pt"][name].text
    fences = re.compile(r"^```.*?^```$", re.M | re.S)
    assert fences.findall(portuguese) == fences.findall(english)
    for shape in (r"^## ", r"^### ", r"^- ", r"^[0-9]\. "):
        assert len(re.findall(shape, portuguese, re.M)) == len(re.findall(shape, english, re.M)), shape
    assert re.findall(r"^\| (`[^|]*?`) \|", portuguese, re.M)[:3] == re.findall(r"^\| (`[^|]*?`) \|", english, re.M)[:3]
    # A word of the API stands in both, and every code is linked to its page in the same language.
    assert set(re.findall(r"`(/?v1/[^`]*)`", portuguese)) == set(re.findall(r"`(/?v1/[^`]*)`", english))
    assert not re.findall(r"\]\(/docs/(?:errors|events)", portuguese)


def test_merchants_read_nothing_of_the_operators_matters() -> None:
    for guides in GUIDES.values():
        for guide in guides.values():
            found = re.findall(
                r"\bquita (?:merchant|webhook|bank|pix|staff|serve)\b|SMTP_URL|_GRACE_S|/plataforma|`make up`",
                guide.text,
            )
            assert found == [], guide.name
    assert {path.name for path in TEXTS.glob("pt/*.md")} == {f"{name.replace('-', '_')}.md" for name in GUIDES["pt"]}


async def test_the_first_page_goes_by_the_readers_language() -> None:
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


async def test_every_kind_of_event_is_there_with_its_body(shelf: Shelf) -> None:
    for path in ("/docs/events", "/docs/pt/events"):
        html = shelf.pages[path]
        for kind, ways in WHOLE["webhooks"].items():
            (section,) = re.findall(rf'<h2 id="{re.escape(kind)}">(.*?)(?=<h2 id=|</main>)', html, re.S)
            shown = msgspec.json.decode(unescape(re.findall(r"<code>(.*?)</code>", section, re.S)[-1]))
            assert shown == ways["post"]["requestBody"]["content"]["application/json"]["example"]
        assert html.count("<td>always</td>" if path == "/docs/events" else "<td>sempre</td>") == 2


async def test_the_search_lists_every_section_and_leads_to_it(shelf: Shelf) -> None:
    for path in ("/docs/search", "/docs/pt/search"):
        found = re.findall(r'<li [^>]*data-words="[^"]*"><a href="([^"]*)">', shelf.pages[path])
        assert len(found) == len(set(found)) > 150
        root = path.removesuffix("/search")
        assert {to for to in found if "/api/" in to} == {
            f"{root}/api/{told['tags'][0].lower().replace(' ', '-')}#{told['operationId']}" for *_, told in OPERATIONS
        }
        # What is written in one language is found by the words of the other.
        assert "<li hidden" not in shelf.pages[path]
        words = {
            to: said for said, to in re.findall(r'<li [^>]*data-words="([^"]*)"><a href="([^"]*)">', shelf.pages[path])
        }
        for of_both in ("refund a paid charge", "devolver uma cobrança paga"):
            assert of_both in words[f"{root}/api/refunds#createRefund"]
        for of_both in ("no longer pending", "não está mais pendente", "foi paga, cancelada", "paid, cancelled"):
            assert of_both in words[f"{root}/errors/CHARGE_NOT_PENDING"]


async def searched(http: aiohttp.ClientSession, address: str, asked: str) -> tuple[list[str], str]:
    """What the page of a query shows without a script, and the page."""
    async with http.get(address, params={"q": asked}) as answer:
        assert answer.status == 200
        assert "form-action 'self'" in answer.headers["Content-Security-Policy"]
        html = await answer.text()
    items = re.findall(r'<li ([^>]*)data-words="[^"]*"><a href="([^"]*)">', html)
    assert len(items) > 150, "the others are there for the script"
    return [to for attributes, to in items if " hidden" not in f" {attributes}"], html


async def test_a_query_in_the_address_is_searched_for_without_a_script() -> None:
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        whole: list[str] = []
        for root in ("/docs", "/docs/pt"):
            found, html = await searched(http, f"{client}{root}/search", "multa")
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
            whole, html = await searched(http, f"{client}{root}/search", "  ")
            assert len(whole) > 150
            assert '<p id="search-found" hidden></p>' in html
        # Every word, with and without accents, whatever is asked before.
        found, _ = await searched(http, f"{client}/docs/pt/search", "DEVOLVER cobranca")
        assert "/docs/pt/api/refunds#createRefund" in found
        found, html = await searched(http, f"{client}/docs/pt/search", "multa <zzz>")
        assert found == []
        assert "Nada encontrado para “multa &lt;zzz&gt;”." in html
        assert 'value="multa &lt;zzz&gt;"' in html
        found, html = await searched(http, f"{client}/docs/search", "z" * 5_000)
        assert (found, "Nothing found for “" + "z" * 100 + "”." in html) == ([], True)


@pytest.mark.parametrize("asked", ["segunda via", "2ª via", "2a via", "Segunda  VIA"])
async def test_an_ordinal_is_found_in_words_and_in_figures(asked: str) -> None:
    async with serving(object(), lambda: datetime.now(UTC)) as client, aiohttp.ClientSession() as http:  # type: ignore[arg-type]
        found, _ = await searched(http, f"{client}/docs/pt/search", asked)
    assert found[0] == "/docs/pt/payer-page#2a-via-de-um-boleto-vencido", "what has it in its title comes first"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
async def test_the_script_narrows_the_list_as_the_server_does(tmp_path: Path) -> None:
    shown = "[...document.querySelectorAll('#entries > li:not([hidden]) a')].map((a) => a.getAttribute('href')).join()"
    said = "document.getElementById('search-found').textContent"
    async with (
        serving(object(), lambda: datetime.now(UTC)) as client,  # type: ignore[arg-type]
        aiohttp.ClientSession() as http,
        browsing(f"{client}/docs/pt/search?q=multa", tmp_path) as evaluate,
    ):
        found, _ = await searched(http, f"{client}/docs/pt/search", "multa")
        await until(evaluate, "document.getElementById('announcement').textContent", f"{len(found)} encontrados")
        assert await evaluate("document.getElementById('docs-search').value") == "multa"
        assert await evaluate(shown) == ",".join(found)
        for asked in ("segunda via", "2ª via", "devolver cobrança", "zzz"):
            found, _ = await searched(http, f"{client}/docs/pt/search", asked)
            await evaluate(f"document.getElementById('docs-search').value = '{asked}'")
            await evaluate("document.getElementById('docs-search').dispatchEvent(new Event('input'))")
            assert await evaluate(shown) == ",".join(found)
            assert str(await evaluate(said)).startswith(
                f"{len(found)} encontrados" if found else "Nada encontrado para “zzz”"
            )
        # From the page of a query to that of another.
        await evaluate("document.getElementById('docs-search').value = 'juros'")
        await evaluate("document.querySelector('.docs-search button').click()")
        await until(evaluate, "location.search + document.readyState", "?q=juroscomplete")
        found, _ = await searched(http, f"{client}/docs/pt/search", "juros")
        assert await evaluate(shown) == ",".join(found)


def texts(document: Any, *, names: bool = False) -> Iterator[str]:
    """Every description and summary of a document. `names`: the keys here are names of fields."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if key in ("description", "summary") and isinstance(value, str) and not names:
            yield value
        elif isinstance(value, dict | list) and (names or key not in ("example", "examples")):
            yield from texts(value, names=key == "properties")


def test_every_text_of_the_reference_is_translated_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert portuguese.TEXTS.keys() - used == set(), "stale: no text of the document is said so any longer"


def test_the_portuguese_document_is_the_english_one_but_for_its_texts() -> None:
    def bare(document: Any, *, names: bool = False) -> Any:
        if isinstance(document, list):
            return [bare(each) for each in document]
        if not isinstance(document, dict):
            return document
        return {
            key: bare(value, names=key == "properties")
            for key, value in document.items()
            if names or key not in ("description", "summary", "x-displayName")
        }

    assert bare(translated()) == bare(WHOLE)
    assert [tag["x-displayName"] for tag in translated()["tags"]][:3] == [
        "Autenticação",
        "Cobranças",
        "Ambiente de teste",
    ]
    # Names of the API, codes and numbers are the same in either language.
    for english, said in portuguese.TEXTS.items():
        for shape in (r"`[^`]+`", r"\b[a-z]+(?:_[a-z]+)+\b", r"\b[A-Z]+(?:_[A-Z]+)+\b", r"/v1/\S+"):
            assert sorted(re.findall(shape, english)) == sorted(re.findall(shape, said)), english


async def test_a_portuguese_page_says_nothing_in_english_but_what_the_api_answers(shelf: Shelf) -> None:
    english = {portuguese_of: text for text in portuguese.TEXTS if (portuguese_of := portuguese.TEXTS[text]) != text}
    sentences = [text for text in english.values() if len(text) > 12]
    pages = [path for path in shelf.pages if path.startswith(("/docs/pt/api", "/docs/pt/events", "/docs/pt/errors"))]
    assert len(pages) > 60
    for path in pages:
        html = re.sub(r'<dd lang="en">.*?</dd>', "", shelf.pages[path])
        text = unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<pre.*?</pre>", "", html, flags=re.S)))
        assert [each for each in sentences if f" {each} " in re.sub(r"\s+", " ", text)] == [], path


async def test_the_portuguese_document_is_served_beside_the_english_one() -> None:
    async with (
        serving(object(), lambda: datetime.now(UTC)) as client,  # type: ignore[arg-type]
        aiohttp.ClientSession() as http,
        http.get(client + DOCUMENTS["pt"]) as answer,
    ):
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert await answer.json() == translated()


def test_every_call_of_the_reference_is_a_program_in_each_language(tmp_path: Path) -> None:
    found = reference.read(OPENAPI)
    operations = [each for _, of_tag in found.tags.values() for each in of_tag]
    assert len(operations) == len(OPERATIONS)
    # Each in a function of its own: one file of a language is one process.
    node, php = [], ["<?php"]
    for each in operations:
        samples = dict(each.samples)
        assert list(samples) == ["curl", "Python", "Node.js", "PHP"]
        compile(samples["Python"], each.id, "exec")
        # An import stands outside of functions.
        rest = re.sub(r"^import .*\n", "", samples["Node.js"])
        node.append(f"async function {each.id}() {{\n{rest}\n}}")
        php.append(f"function {each.id}() {{\n{samples['PHP'].removeprefix('<?php')}\n}}")
    for name, program, words in (("calls.mjs", node, ("node", "--check")), ("calls.php", php, ("php", "-l"))):
        if shutil.which(words[0]) is None:
            continue
        (tmp_path / name).write_text("\n".join(program), encoding="utf-8")
        run = subprocess.run([*words, str(tmp_path / name)], capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 0, run.stderr + run.stdout
