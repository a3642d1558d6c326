"""The proxy of compose.yaml: TLS, the client's address, the bank by its certificate alone, all else passed through."""

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from runtime.local.ports import free_port
from tests.support.merchant import new_merchant
from tests.support.nginx import BANK_HOST, HOST, PROGRAM, Proxy, nginx
from tests.support.system import System

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed (apt-get install nginx-light)")


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps(self.headers.items()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: no test reads it."""


@pytest.fixture(scope="module")
def proxy(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with nginx(urlsplit(system.base_url).netloc, tmp_path_factory.mktemp("nginx")) as started:
        yield started


def client(proxy: Proxy, *, host: str = HOST, certificate: str | None = None) -> httpx.Client:
    trusted = ssl.create_default_context(cafile=str(proxy.tls / "ca.pem"))
    if certificate is not None:
        trusted.load_cert_chain(proxy.tls / f"{certificate}.pem", proxy.tls / f"{certificate}.key")
    # Names below localhost are this machine and need no name server.
    return httpx.Client(
        base_url=f"https://127.0.0.1:{proxy.https}", verify=trusted, timeout=30, headers={"host": host},
        transport=_Named(host, trusted),
    )  # fmt: skip


class _Named(httpx.HTTPTransport):
    """A transport that asks for the certificate of `host`, whatever address it connects to."""

    def __init__(self, host: str, trusted: ssl.SSLContext) -> None:
        super().__init__(verify=trusted)
        self._host = host

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["sni_hostname"] = self._host
        return super().handle_request(request)


async def test_a_charge_is_created_over_tls_and_its_page_streams_events_without_buffering(
    system: System, proxy: Proxy
) -> None:
    async with new_merchant(system) as merchant:
        charge = await merchant.sandbox.created()
        token = await merchant.sandbox.token()
    with client(proxy) as over_tls:
        headers = {"authorization": f"Bearer {token}", "idempotency-key": "over-tls"}
        made = over_tls.post("/v1/charges/pix", headers=headers, json=merchant.sandbox.body("1.00"))
        assert made.status_code == 201, made.text
        assert over_tls.get(made.headers["location"], headers=headers).json()["amount"] == "1.00"
        with over_tls.stream("GET", f"/pagar/{charge['public_id']}/eventos") as events:
            assert "event: estado" in islice(events.iter_lines(), 3)
        assert over_tls.get("/metrics").status_code == 404
        large = over_tls.post("/v1/charges/pix", headers=headers, content=b"x" * 1_300_000)
        assert (large.status_code, large.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


def test_plain_http_is_redirected_to_https(proxy: Proxy) -> None:
    went = httpx.post(f"http://127.0.0.1:{proxy.http}/v1/charges/pix?x=1", follow_redirects=False, timeout=30)
    assert (went.status_code, went.headers["location"]) == (308, f"https://{HOST}:{proxy.https}/v1/charges/pix?x=1")


def test_bank_callbacks_need_the_banks_certificate_and_its_own_host_name(proxy: Proxy) -> None:
    path = "/bank/nobody-knows/pix"
    with client(proxy) as merchant:
        assert merchant.post(path).text.startswith("<html>")  # the proxy's 404, not the API's
    for certificate, status in ((None, 400), ("stranger", 400), ("other", 403)):
        with client(proxy, host=BANK_HOST, certificate=certificate) as somebody:
            assert somebody.post(path).status_code == status, certificate
    with client(proxy, host=BANK_HOST, certificate="bank") as bank:
        heard = bank.post(path, json={})
        assert (heard.status_code, "x-request-id" in heard.headers) == (404, True), heard.text
        assert bank.get("/v1/me").text.startswith("<html>")
    assert "nobody-knows" not in "".join(
        line for line in (proxy.tls / "access.log").read_text("utf-8").splitlines() if "403" in line
    )


def test_the_forwarded_client_address_is_the_proxys_and_not_the_clients_claim(tmp_path: Path) -> None:
    echo = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=echo.serve_forever, daemon=True).start()
    try:
        with nginx(f"127.0.0.1:{echo.server_port}", tmp_path) as proxy, client(proxy) as spoofing:
            sent = {"x-forwarded-for": "203.0.113.9", "connection": "close"}
            heard = dict(spoofing.get("/v1/me", headers=sent).json())
    finally:
        echo.shutdown()
        echo.server_close()
    assert (heard["X-Forwarded-For"], heard["X-Forwarded-Proto"]) == ("127.0.0.1", "https")
    assert heard["Host"] == HOST


def test_while_the_api_is_down_the_proxy_answers_503_in_the_error_envelope(tmp_path: Path) -> None:
    with nginx(f"127.0.0.1:{free_port()}", tmp_path) as proxy, client(proxy) as asking:
        answer = asking.get("/v1/me")
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert answer.headers["retry-after"] == "2"
        assert error.keys() == {"code", "message", "request_id", "documentation_url"}
