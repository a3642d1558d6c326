"""The bank's production PIX host requires a client certificate; ours is presented when a setting names it."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from prometheus_client import REGISTRY

from banks.certificate import certificate_ends_at
from banks.choice import open_banks
from banks.protocol import CobState, Unknown
from runtime.seal import Seal
from runtime.settings import Settings, read_settings
from tests.support.dns_names import Authority

OTHER_SETTINGS = {"DATABASE_URL": "postgresql://nobody", "REDIS_URL": "redis://nobody", "SECRET_KEY": "0" * 64}
TXID = "0" * 32
COB = {
    "txid": TXID, "status": "ATIVA", "revisao": 0, "valor": {"original": "10.00"}, "chave": "a@b.test",
    "calendario": {"criacao": "2026-11-21T12:00:00Z", "expiracao": 3600},
}  # fmt: skip


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest_asyncio.fixture(loop_scope="session")
async def bank_url(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A bank that accepts only clients with a certificate of this authority."""
    tls = authority.server("localhost")
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.roots)

    async def token(request: web.Request) -> web.Response:
        return web.json_response({"access_token": "t", "token_type": "Bearer", "expires_in": 600})

    async def cob(request: web.Request) -> web.Response:
        return web.json_response(COB)

    app = web.Application()
    app.add_routes([web.post("/oauth/token", token), web.get("/pix/v2/cob/{txid}", cob)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.roots))
    try:
        yield f"https://localhost:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _settings(bank_url: str, **more: str) -> Settings:
    return read_settings({**OTHER_SETTINGS, "BANK_URL": bank_url, **more})


async def _get_cob(settings: Settings) -> Any:
    pool: Any = None  # the production adapter uses no database
    async with aiohttp.ClientSession() as http:
        return await open_banks(settings, pool, http, Seal(settings.secret_key)).production["001"].pix.get_cob(TXID)


async def test_our_certificate_is_presented_to_the_bank(bank_url: str, authority: Authority) -> None:
    file = authority.certificate("quita.test")
    answer = await _get_cob(_settings(bank_url, BANK_CERTIFICATE=str(file)))
    assert isinstance(answer, CobState)
    assert answer.status == "ATIVA"


async def test_the_key_of_our_certificate_may_be_a_separate_file_with_a_password(
    bank_url: str, authority: Authority, tmp_path: Path
) -> None:
    both = authority.certificate("quita.test", password=b"segredo").read_bytes()
    begins = both.index(b"-----BEGIN ENCRYPTED PRIVATE KEY")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(both[:begins])
    key.write_bytes(both[begins:])
    files = {"BANK_CERTIFICATE": str(chain), "BANK_CERTIFICATE_KEY": str(key)}
    assert isinstance(await _get_cob(_settings(bank_url, **files, BANK_CERTIFICATE_PASSWORD="segredo")), CobState)
    for password in ("falso", ""):
        with pytest.raises(ValueError, match="BANK_CERTIFICATE cannot be used"):
            await _get_cob(_settings(bank_url, **files, BANK_CERTIFICATE_PASSWORD=password))


async def test_the_reason_why_the_bank_refuses_our_certificate_is_reported(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.roots))
    tls = authority.server("localhost")
    tls.maximum_version = ssl.TLSVersion.TLSv1_2  # with 1.3 the alert may follow our request and be lost
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.roots)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse() -> None:
            conn, _ = listening.accept()
            with conn, contextlib.suppress(OSError):  # an asyncio server would close before it sends its alert
                tls.wrap_socket(conn, server_side=True)

        refusing = asyncio.create_task(asyncio.to_thread(refuse))
        file = authority.certificate("quita.test", by_itself=True)
        answer = await _get_cob(
            _settings(f"https://localhost:{listening.getsockname()[1]}", BANK_CERTIFICATE=str(file))
        )
        await refusing
    assert "UNKNOWN_CA" in answer.detail


async def test_a_handshake_that_fails_without_our_certificate_is_unknown_and_not_a_refusal(bank_url: str) -> None:
    assert isinstance(await _get_cob(_settings(bank_url)), Unknown)


async def test_an_error_with_an_expired_certificate_of_ours_names_the_day_it_ended(
    bank_url: str, authority: Authority
) -> None:
    """A gauge also shows when the certificate ends, for an alert rule that fires before that."""
    file = authority.certificate("quita.test", expired=True)
    settings = _settings(bank_url, BANK_CERTIFICATE=str(file))
    answer = await _get_cob(settings)
    assert isinstance(answer, Unknown)
    ends_at = certificate_ends_at(settings)
    assert ends_at is not None
    assert answer.detail.startswith("token: ")
    assert answer.detail.endswith(f" (BANK_CERTIFICATE ended at {ends_at:%Y-%m-%d})")
    assert timedelta(hours=23) < datetime.now(UTC) - ends_at < timedelta(hours=25)
    shown = REGISTRY.get_sample_value("quita_bank_certificate_ends_timestamp_seconds", {"bank": "001"})
    assert shown == ends_at.timestamp()


@pytest.mark.parametrize("expired", [True, False])
def test_quita_doctor_says_when_our_certificate_ends(
    authority: Authority, expired: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cli.main import main

    file = authority.certificate("quita.test", expired=expired)
    for name, value in {**OTHER_SETTINGS, "BANK_CERTIFICATE": str(file)}.items():
        monkeypatch.setenv(name, value)
    main(["doctor"])
    said = capsys.readouterr().out
    assert ("BANK_CERTIFICATE ended at" in said, "BANK_CERTIFICATE ends at" in said) == (expired, not expired)


async def test_a_certificate_of_an_unknown_authority_is_not_accepted_by_the_bank(
    bank_url: str, authority: Authority
) -> None:
    file = authority.certificate("quita.test", by_itself=True)
    assert isinstance(await _get_cob(_settings(bank_url, BANK_CERTIFICATE=str(file))), Unknown)


async def test_nothing_is_sent_to_a_bank_whose_own_certificate_is_not_trusted(
    bank_url: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = authority.certificate("quita.test")
    monkeypatch.delenv("SSL_CERT_FILE")
    assert isinstance(await _get_cob(_settings(bank_url, BANK_CERTIFICATE=str(file))), Unknown)


def test_a_missing_certificate_file_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="BANK_CERTIFICATE must be a file"):
        _settings("https://localhost", BANK_CERTIFICATE=str(tmp_path / "none.pem"))
