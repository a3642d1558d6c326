"""The payer's page and the public pages, over a real socket and, where one is installed, in a real browser."""

import asyncio
import base64
import hashlib
import hmac
import json
import re
import runpy
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from domain.brazilian import boleto_line, brl, merchant_document, moment, moment_near
from domain.charge import Status
from domain.errors import Code
from runtime.ids import new_id, new_token
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.browser import CHROMIUM
from tests.support.code_reader import qr_text
from tests.support.dashboard import Books, Clock, a_merchant
from tests.support.pages import SETTINGS, browsing, serving, tab, until
from web.documentation.remedies import REMEDIES
from web.payer import WORDS

NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)  # 12:30 in Brasília
CODE = (
    "00020101021226850014br.gov.bcb.pix2563qr.quita.example/v2/cobv/0a1b2c3d4e5f60718293a4b5c6d7e8f9"
    "52040000530398654071234.565802BR5916Padaria Aurora L6009Sao Paulo62070503***6304A1B2"
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def base_url(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: NOW) as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as session:
        yield session


Charge = Callable[..., Awaitable[str]]


@pytest_asyncio.fixture(loop_scope="session")
async def charge(pool: Pool) -> Charge:
    """A function that inserts a charge as the projections store it, and returns its public id."""

    async def make(
        status: str = "pending",
        *,
        merchant: str = "Padaria Aurora Ltda",
        test: bool = False,
        expires_at: datetime = NOW + timedelta(minutes=45),
        due_date: date | None = None,
        payment_method: str = "pix",
        **told: Any,
    ) -> str:
        account_id, charge_id, public_id = new_id(), new_id(), new_token()
        doc = {
            "account_id": str(account_id),
            "charge_id": str(charge_id),
            "test": test,
            "created_at": NOW.isoformat(),
            "payment_method": payment_method,
            "amount_cents": 123456,
            "due_date": None if due_date is None else due_date.isoformat(),
            "public_id": public_id,
            "status": status,
            "qr_code": CODE,
            "expires_at": expires_at.isoformat(),
            "payment": None,
            **told,
        }
        await pool.execute(
            "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
            " VALUES ($1, $2, '12345678000190', 'Sao Paulo', 'approved', $3, $4)",
            account_id, merchant, str(account_id), NOW,
        )  # fmt: skip
        await pool.execute(
            "WITH created AS (INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor,"
            " payload) VALUES ($1, $3, $2, 1, 'charge.created', $4, 'test', jsonb_build_object('charge', $9::jsonb))"
            " RETURNING journal_id)"
            " INSERT INTO read_charge (account_id, charge_id, test, created_at, status, payment_method,"
            " amount_cents, public_id, due_date, version, journal_id)"
            " SELECT $1, $2, $3, $4, $5, $6, 123456, $7, $8, 1, journal_id FROM created",
            account_id, charge_id, test, NOW, status, payment_method, public_id, due_date,
            msgspec.json.encode(doc),
        )  # fmt: skip
        return public_id

    return make


PAYMENT = {
    "payment_id": "01990000-0000-7000-8000-000000000001",
    "method": "pix",
    "amount_cents": 123456,
    "paid_at": "2026-11-21T15:02:09.000Z",
    "end_to_end_id": "E1234567820261121150212345678901",
    "payer_sealed": "U0VBTEVE",
}


async def pay(pool: Pool, public_id: str) -> None:
    change = {"status": "paid", "payment": PAYMENT, "paid_at": PAYMENT["paid_at"]}
    await pool.execute(
        "UPDATE read_charge SET status = 'paid', version = 2, changes = $2 WHERE public_id = $1",
        public_id,
        msgspec.json.encode(change),
    )


async def fetch_page(client: aiohttp.ClientSession, address: str, **options: Any) -> tuple[int, str]:
    async with client.request(options.pop("method", "GET"), address, **options) as answer:
        return answer.status, await answer.text()


# The page


async def test_a_payer_sees_payee_amount_expiry_and_a_qr_code_that_scans(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    status, html = await fetch_page(client, f"{base_url}/pagar/{await charge(description='Encomenda nº 88')}")
    assert status == 200
    assert '<html lang="pt-BR">' in html
    for shown in (
        "Padaria Aurora Ltda",
        "12.345.678/0001-90",
        "R$\u00a01.234,56",
        "Encomenda nº 88",
        "hoje às 13:15",
    ):
        assert shown in html
    field = re.search(r'<input id="pix-code"[^>]* readonly [^>]*value="([^"]*)"', html)
    assert field
    assert field[1] == CODE
    image = re.search(r'<img src="data:image/png;base64,([^"]+)" width="\d+" height="\d+" alt="QR Code[^"]+', html)
    assert image
    assert qr_text(image[1]) == CODE


@pytest.mark.parametrize("state", list(Status))
async def test_each_state_is_named_and_only_a_pending_charge_can_be_paid(
    base_url: str, client: aiohttp.ClientSession, charge: Charge, state: Status
) -> None:
    settled = state in (Status.PAID, Status.REFUNDED)
    public_id = await charge(state.value, payment=PAYMENT if settled else None)
    status, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    assert status == 200
    assert WORDS[state][0] in html
    assert (CODE in html) == ("data:image/png" in html) == (state is Status.PENDING)
    # Money can still arrive for a pending or an expired charge, so its page keeps asking for the state.
    waits = state in (Status.PENDING, Status.EXPIRED)
    assert f'data-settled="{"no" if waits else "yes"}"' in html
    if settled:
        assert "21/11/2026 às 12:02" in html
        assert "E1234567820261121150212345678901" in html


async def test_a_pending_charge_past_its_expiry_is_shown_as_expired(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    public_id = await charge(expires_at=NOW)
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    assert "Esta cobrança venceu" in html
    assert CODE not in html
    _, state = await fetch_page(client, f"{base_url}/pagar/{public_id}/estado")
    assert json.loads(state) == {"status": "expired", "version": 1}


async def test_state_and_fragment_follow_the_payment(
    base_url: str, client: aiohttp.ClientSession, charge: Charge, pool: Pool
) -> None:
    public_id = await charge()
    assert await fetch_page(client, f"{base_url}/pagar/{public_id}/estado") == (
        200,
        '{"status":"pending","version":1}',
    )
    await pay(pool, public_id)
    assert await fetch_page(client, f"{base_url}/pagar/{public_id}/estado") == (200, '{"status":"paid","version":2}')
    status, fragment = await fetch_page(client, f"{base_url}/pagar/{public_id}/fragmento")
    assert status == 200
    assert fragment.startswith("<article ")
    assert "Pagamento confirmado" in fragment
    assert fragment.strip() in (await fetch_page(client, f"{base_url}/pagar/{public_id}"))[1]


async def test_only_a_test_charge_carries_the_banner(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    _, of_test = await fetch_page(client, f"{base_url}/pagar/{await charge(test=True)}")
    _, of_production = await fetch_page(client, f"{base_url}/pagar/{await charge()}")
    assert "TESTE - não pague" in of_test
    assert "TESTE" not in of_production


async def test_a_boleto_shows_its_line_and_due_date(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    line = "00190500954014481606906809350314337370000000100"
    boleto = {"linha_digitavel": line, "codigo_barras": "00193373700000001000500940144816060680935031"}
    public_id = await charge(payment_method="boleto", qr_code=None, boleto=boleto, due_date=date(2026, 11, 30))
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    assert "00190.50095 40144.816069 06809.350314 3 37370000000100" in html
    assert "30/11/2026" in html
    assert "QR Code" not in html


async def test_text_written_by_a_merchant_is_escaped(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    for state in ("pending", "paid"):
        public_id = await charge(state, merchant=evil, description=evil)
        for tail in ("", "/fragmento"):
            _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}{tail}")
            assert "&lt;script&gt;alert" in html
            assert "<script>" not in html
            assert "<img src=x" not in html
            assert evil not in html


async def test_page_and_preview_show_nothing_about_the_payer_or_the_person_who_paid(
    base_url: str, client: aiohttp.ClientSession, pool: Pool
) -> None:
    books = Books(pool, (await a_merchant(pool)).account_id, Seal(SETTINGS.secret_key))
    payer = {"name": "Fulana de Souza", "document": "52998224725", "email": "fulana@example.com"}
    doc = await books.charge(at=NOW, payer=payer)
    _, pending = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}")
    await books.paid(doc, at=NOW, payer_name="Beltrano Lima", payer_document="12345678909")
    _, paid = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}")
    assert ("Pagamento confirmado" in pending, "Pagamento confirmado" in paid) == (False, True)
    ((payment_id, sealed),) = await pool.fetch(
        "SELECT payment_id::text, encode(payer_sealed, 'base64') FROM payment WHERE account_id = $1", books.account_id
    )
    for html in (pending, paid):
        for hidden in ("Fulana", "52998224725", "982.247", "fulana@", "Beltrano", "12345678909", "345.678", payment_id):
            assert hidden not in html
        assert sealed[:40] not in html


async def test_a_page_loads_nothing_from_other_hosts_and_nothing_inline(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    for path in (f"/pagar/{await charge(test=True)}", "/pagar/unknown", "/docs", "/docs/errors"):
        _, html = await fetch_page(client, base_url + path)
        sources = re.findall(r'(?:src|href|action|srcset|poster)="([^"]*)"', html)
        assert sources
        assert all(each.startswith(("/", "#", "data:image/png;")) and not each.startswith("//") for each in sources)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|url\(", html)


async def test_static_files_may_be_cached_for_ever_under_their_hashed_name(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    _, html = await fetch_page(client, f"{base_url}/pagar/{await charge()}")
    names = re.findall(r'"(/static/[^"]+)"', html)
    assert {name.rpartition(".")[2] for name in names} == {"css", "js", "svg"}
    for name in names:
        async with client.get(base_url + name) as answer:
            assert answer.status == 200
            assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            assert hashlib.sha256(await answer.read()).hexdigest()[:12] == name.split(".")[1]
            assert answer.headers["Content-Type"].count("charset") <= 1
    async with client.get(f"{base_url}/static/page.000000000000.css") as answer:  # a name of the version before
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
    for name in ("nothing.css", "page.css%00", "..%2fapp.py", "page", "templates"):
        status, _ = await fetch_page(client, f"{base_url}/static/{name}")
        assert status == 404


# Odd requests


async def raw(base_url: str, request: bytes) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(base_url.rpartition(":")[2]))
    writer.write(request + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    try:
        head, _, body = (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n\r\n")
    finally:
        writer.close()
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split()[1]), {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}, body


UNKNOWN = (
    b"AAAAAAAAAAAAAAAAAAAAAA", b"x", b"%00", b"abc%00def", b"%ff%fe", b"%ed%a0%80", b"%F0%9F%92%B8",
    b"a" * 5000, b"%27%20OR%201=1--", b"..%2f..%2fetc",
    b"%2e%2e", b"%", b"%zz", b"AAAA%0d%0aX-Evil:1", b"%e2%80%ae",
)  # fmt: skip


async def test_all_unknown_links_get_the_same_404(base_url: str) -> None:
    pages = set()
    for public_id in UNKNOWN:
        for tail in (b"", b"/estado", b"/fragmento"):
            status, headers, body = await raw(base_url, b"GET /pagar/" + public_id + tail)
            assert status == 404, public_id
            assert "x-evil" not in headers
            pages.add(body)
    assert len(pages) == 1
    assert "Página não encontrada" in pages.pop().decode()


async def test_no_request_gives_a_500_and_every_answer_has_the_security_headers(base_url: str, charge: Charge) -> None:
    known = b"/pagar/" + (await charge()).encode()
    requests = [b"GET " + path for path in (b"/pagar", b"/pagar/", b"/painel", b"/docs/errors/%00", b"//", b"/docs/x")]
    requests += [b"GET /docs/errors/" + each for each in UNKNOWN]
    requests += [b"GET /static/" + each for each in UNKNOWN]
    requests += [
        b"GET " + known + tail for tail in (b"", b"/", b"?%00=%ff", b"?a=1&a=2", b"/estado", b"/fragmento", b"/x")
    ]
    methods = (
        b"POST",
        b"PUT",
        b"DELETE",
        b"PATCH",
        b"OPTIONS",
        b"TRACE",
        b"BREW",
        b"PROPFIND",
        b"get",
        b"HEAD",
    )
    requests += [method + b" " + path for method in methods for path in (known, b"/docs", b"/favicon.ico", b"/nothing")]
    for request in requests:
        status, headers, _ = await raw(base_url, request)
        assert status < 500, request
        assert status in (200, 204, 303, 400, 404, 405), request
        if status == 400 and "x-request-id" not in headers:
            continue  # refused by the server's HTTP parser, before the application
        assert headers["content-security-policy"].startswith("default-src 'none'; img-src 'self' data:;")
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert "cache-control" in headers
        assert ("x-robots-tag" in headers) != (b" /docs" in request)
        if status == 405:
            assert {"GET", "HEAD"} <= set(headers["allow"].split(", "))


async def test_head_is_get_without_the_body(base_url: str, charge: Charge) -> None:
    path = b"/pagar/" + (await charge()).encode()
    status, of_get, body = await raw(base_url, b"GET " + path)
    head_status, of_head, nothing = await raw(base_url, b"HEAD " + path)
    assert (status, head_status, nothing) == (200, 200, b"")
    assert int(of_head["content-length"]) == int(of_get["content-length"]) == len(body)
    assert of_get["cache-control"] == "no-store"
    assert of_get["x-robots-tag"] == "noindex, nofollow"


class _UnreachablePool:
    """A pool whose database cannot be reached."""

    def wanted(self) -> float:
        return 0.0

    def acquire(self, **_: object) -> Any:
        raise ConnectionRefusedError("no database")


async def test_without_a_database_pages_answer_503_and_ask_to_try_again(client: aiohttp.ClientSession) -> None:
    async with serving(_UnreachablePool(), lambda: NOW) as base_url, client.get(f"{base_url}/pagar/abc") as answer:  # type: ignore[arg-type]
        html = await answer.text()
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "5"
        assert "indisponível" in html
        assert answer.headers["X-Request-Id"] in html
        assert "database" not in html


# Documentation


async def test_every_error_code_has_a_page_that_says_what_to_do(base_url: str, client: aiohttp.ClientSession) -> None:
    assert set(REMEDIES) == set(Code)
    _, index = await fetch_page(client, f"{base_url}/docs/errors")
    for code in Code:
        status, html = await fetch_page(client, f"{base_url}/docs/errors/{code.name}")
        assert status == 200
        assert f"<dd>{code.status}</dd>" in html
        assert ("Yes: the same request" if code.retry else "No: the same request") in html
        assert f'href="/docs/errors/{code.name}"' in index
    status, html = await fetch_page(client, f"{base_url}/docs/errors/NO_SUCH_CODE")
    assert status == 404
    assert ("Page not found" in html, 'href="/docs"' in html) == (True, True)
    status, html = await fetch_page(client, f"{base_url}/docs/pt/errors/NO_SUCH_CODE")
    assert (status, '<html lang="pt-BR">' in html) == (404, True)
    assert ("Página não encontrada" in html, 'href="/docs/pt"' in html) == (True, True)


async def test_the_verification_code_in_the_docs_accepts_our_signatures_and_nothing_else(
    base_url: str, client: aiohttp.ClientSession
) -> None:
    source = Path(__file__).parents[3] / "docs" / "receiver" / "verify.py"
    _, html = await fetch_page(client, f"{base_url}/docs")
    assert source.read_text(encoding="utf-8").strip() in unescape(html)
    verify = runpy.run_path(str(source))["verify"]
    secret, body = "whsec_" + base64.b64encode(bytes(32)).decode(), b'{"event":"payment.received"}'

    def headers(at: int) -> dict[str, str]:
        signature = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
        return {"X-Service-Timestamp": str(at), "X-Service-Signature": f"sha256={signature}"}

    at = int(time.time())
    assert verify(body, headers(at), [secret])
    assert not verify(body + b" ", headers(at), [secret])
    assert not verify(body, headers(at), [secret + "x"])
    assert not verify(body, headers(at - 330), [secret])
    assert not verify(body, {}, [secret])
    assert not verify(body, {"X-Service-Timestamp": "²", "X-Service-Signature": "é"}, [secret])
    # During a rotation the previous secret signs too.
    new, rotated = "whsec_new", headers(at)
    rotated["X-Service-Signature-Previous"] = rotated["X-Service-Signature"]
    rotated["X-Service-Signature"] = "sha256=" + hmac.new(new.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    assert verify(body, rotated, [secret])
    assert verify(body, rotated, [new])


def test_amounts_instants_and_documents_are_written_as_in_brazil() -> None:
    assert [brl(cents) for cents in (1, 100, 123456, 999999999999)] == [
        "R$\u00a00,01", "R$\u00a01,00", "R$\u00a01.234,56", "R$\u00a09.999.999.999,99"
    ]  # fmt: skip
    assert moment(datetime(2026, 1, 1, 2, 59, tzinfo=UTC)) == "31/12/2025 às 23:59"
    assert moment_near(datetime(2026, 11, 22, 2, 59, tzinfo=UTC), now=NOW) == "hoje às 23:59"
    assert moment_near(datetime(2026, 11, 22, 3, 0, tzinfo=UTC), now=NOW) == "22/11/2026 às 00:00"
    assert merchant_document("12345678901") == "CPF ***.456.789-**"
    assert merchant_document("?") == ""
    assert boleto_line("12") == "12"


# Foreground, background, and the least contrast that WCAG 2.2 AA asks for: 4.5 for text, 3 for a field's edge.
CONTRASTS = [
    *(("ink", ground, 4.5) for ground in ("card", "ground", "field")),
    *(("soft", ground, 4.5) for ground in ("card", "ground")),
    *(("accent", ground, 4.5) for ground in ("card", "ground")),
    *(("on-accent", ground, 4.5) for ground in ("accent", "accent-strong")),
    ("accent-strong", "accent-ground", 4.5),
    ("warn", "warn-ground", 4.5),
    ("warn", "card", 4.5),
    ("stop", "card", 3),
    ("field-line", "card", 3),
]


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark", "paper"])
def test_colours_of_every_scheme_have_the_contrast_of_wcag_aa(scheme: str) -> None:
    css = (Path(__file__).parents[3] / "web" / "static" / "page.css").read_text(encoding="utf-8")
    light, dark, paper = re.findall(r":root \{(.*?)\}", css, re.S)
    # The scheme for paper lists only its differences from the light one.
    said = {"light": light, "dark": dark, "paper": light + paper}[scheme]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", said))
    for text, ground, least in CONTRASTS:
        higher, lower = sorted((_luminance(colours[text]), _luminance(colours[ground])), reverse=True)
        assert (higher + 0.05) / (lower + 0.05) >= least, f"{text} on {ground}"


if CHROMIUM:
    # Only these tests need a browser; those above run everywhere.

    async def test_an_open_page_turns_to_paid_without_a_reload(pool: Pool, charge: Charge, tmp_path: Path) -> None:
        public_id = await charge(test=True)
        async with (
            serving(pool, lambda: NOW) as base_url,
            browsing(f"{base_url}/pagar/{public_id}", tmp_path / "profile") as evaluate,
        ):
            await until(evaluate, "document.querySelector('[data-copy]')?.hidden", False)
            assert "Expira em 4" in await evaluate("document.querySelector('.countdown').textContent")
            await evaluate("window.stayed = true; document.querySelector('[data-copy]').click()")
            await until(evaluate, "document.querySelector('[data-copy]').textContent", "✓ Código copiado")

            await pay(pool, public_id)

            await until(evaluate, "document.querySelector('h1').textContent", "Pagamento confirmado")
            assert await evaluate("window.stayed") is True
            assert await evaluate("document.title.startsWith('Pagamento confirmado')") is True
            spoken = "document.querySelector('[aria-live=polite]').textContent"
            assert (await evaluate(spoken)).startswith("Pagamento confirmado.")
            # Nothing was requested from another host, and the page's own policy blocked nothing.
            asked = await evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
            assert asked
            assert all(each.startswith((base_url, "data:")) for each in asked)
            assert await evaluate("document.querySelector('[data-print]').hidden") is False

    async def test_an_open_page_turns_to_expired_when_its_time_is_up(
        pool: Pool, charge: Charge, tmp_path: Path
    ) -> None:
        # The browser's clock and the server's are three hours apart: the server's counts. Both stand still between the
        # steps, because a page may take longer to load than its countdown has seconds left.
        clock = Clock()
        clock.on(timedelta(hours=3))
        stands = "const began = Date.now(); window.passed_s = 0; Date.now = () => began + 1000 * passed_s;"
        countdown = "document.querySelector('.countdown')?.textContent"
        async with serving(pool, clock.now) as base_url, tab(tmp_path / "profile") as (command, evaluate):
            public_id = await charge(expires_at=clock.now() + timedelta(minutes=10))
            await command("Page.enable")
            await command("Page.addScriptToEvaluateOnNewDocument", source=stands)
            await command("Page.navigate", url=f"{base_url}/pagar/{public_id}")
            await until(evaluate, countdown, "Expira em 10:00")
            await evaluate("passed_s = 595")
            await until(evaluate, countdown, "Expira em 00:05")
            clock.on(timedelta(minutes=10))
            await evaluate("passed_s = 600")
            await until(evaluate, "document.querySelector('h1')?.textContent", "Esta cobrança venceu")
            assert await evaluate("document.querySelector('#state').className") == "swapped"
            assert await evaluate("document.querySelector('#pix-code')") is None
            assert await evaluate("document.querySelector('article').dataset.settled") == "no"
