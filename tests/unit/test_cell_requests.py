"""Finding the cell of a request takes bounded time whatever the request contains: it comes before authentication."""

import time
from urllib.parse import quote

import pytest

from cli.run.cell_requests import cell_in_form, cell_of_request, email_of
from web.head import cookie_in


def scope(path: str, *headers: tuple[bytes, bytes]) -> dict[str, object]:
    return {"type": "http", "method": "GET", "path": path, "headers": list(headers), "query_string": b""}


@pytest.mark.parametrize("path", ["/painel", "/plataforma/lojas"])
@pytest.mark.parametrize("junk", [b"=" * 32_000 + b'"', b'painel="' + b"\\" * 32_000 + b'"', b";" * 32_000])
def test_parsing_a_malformed_cookie_takes_less_than_half_a_second(path: str, junk: bytes) -> None:
    began = time.process_time()
    assert cell_of_request(scope(path, (b"cookie", junk))) is None
    assert time.process_time() - began < 0.5


def test_a_session_cookie_among_others_leads_to_its_cell() -> None:
    cookies = b'other="a;b"; painel=00b1f2; plataforma=00c' + b"0" * 61
    assert cell_of_request(scope("/painel", (b"cookie", cookies))) == 0x00B
    assert cell_of_request(scope("/plataforma/acesso", (b"cookie", cookies))) == 0x00C
    assert cell_of_request(scope("/painel", (b"cookie", b"__Host-painel=00d1; painel=00b1"))) == 0x00D


def test_a_quoted_cookie_value_is_read_back_unchanged() -> None:
    value = 'São "Luís"; a=b, %25\\'
    headers = [(b"host", b"example.com"), (b"cookie", f"other=1; ours={quote(value)}".encode())]
    assert cookie_in({"headers": headers}, "ours") == value


@pytest.mark.parametrize("body", [b'{"a":' + b"[" * 60_000, b"{", b'{"client_id": 1}', b"\xff", b"{\xff"])
def test_a_form_that_cannot_be_parsed_names_no_cell_and_no_email(body: bytes) -> None:
    assert cell_in_form(scope("/v1/oauth/token"), body) is None
    assert email_of(body) == ""
