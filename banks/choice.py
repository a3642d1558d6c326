"""Which bank serves which mode."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from banks.banco_do_brasil.agreement import Agreement
from banks.banco_do_brasil.callbacks import boleto_hints, pix_hints
from banks.banco_do_brasil.cobrancas import Cobrancas
from banks.banco_do_brasil.pix import BancoDoBrasil
from banks.banco_do_brasil.transport import Transport
from banks.protocol import Bank
from banks.simulated.bank import SANDBOX, SimulatedBank
from domain.mode import Mode
from runtime.postgres import Pool
from runtime.seal import Seal
from runtime.settings import Settings

# Where Banco do Brasil issues tokens for each of its API hosts; any other bank does it on its own.
_OAUTH: Final = {
    "api-pix.bb.com.br": "https://oauth.bb.com.br",
    "api-pix.hm.bb.com.br": "https://oauth.hm.bb.com.br",
    "api.hm.bb.com.br": "https://oauth.hm.bb.com.br",
}
# None of these hosts sends PIX by an API that we know: they take BANK_TRANSFERS_URL. The simulated bank has one.
# Boletos are on another host than production's PIX, which asks for client certificates.
_BOLETOS: Final = {
    "api-pix.bb.com.br": "https://api.bb.com.br",
    "api-pix.hm.bb.com.br": "https://api.hm.bb.com.br",
}

CALLBACKS: Final[dict[str, Callable[[bytes], dict[str, str]]]] = {
    "": pix_hints,
    "pix": pix_hints,
    "boletos": boleto_hints,
}
"""By what follows the token in the path the bank calls: how its body is read."""


def agreement_of(settings: Settings) -> Agreement:
    """Under which boletos are issued now."""
    return Agreement(
        convenio=settings.bank_convenio,
        carteira=settings.bank_carteira,
        agencia=settings.bank_agencia,
        conta=settings.bank_conta,
    )


def open_banks(settings: Settings, pool: Pool, http: aiohttp.ClientSession, seal: Seal) -> dict[Mode, Bank]:
    """The simulated bank's sandbox books, and the bank of production at BANK_URL.

    ValueError when the certificate we are to show it cannot be read.
    """

    def now() -> datetime:
        return datetime.now(UTC)

    host = urlsplit(settings.bank_url).hostname or ""
    oauth_url = f"{_OAUTH.get(host, settings.bank_url)}/oauth/token"
    tls = _tls(settings)
    boletos = Cobrancas(
        Transport(
            http,
            oauth_url=oauth_url,
            client_id=settings.bank_boleto_client_id,
            client_secret=settings.bank_boleto_client_secret,
            app_key=settings.bank_boleto_app_key,
            tls=tls,
        ),
        api_url=f"{_BOLETOS.get(host, settings.bank_url)}/cobrancas/v2",
        convenio=settings.bank_convenio,
        carteira=settings.bank_carteira,
        variacao=settings.bank_variacao,
        agencia=settings.bank_agencia,
        conta=settings.bank_conta,
        now=now,
    )
    return {
        Mode.SANDBOX: SimulatedBank(pool, seal, world=SANDBOX, url=settings.app_url, now=now),
        Mode.PRODUCTION: BancoDoBrasil(
            http,
            api_url=f"{settings.bank_url}/pix/v2",
            oauth_url=oauth_url,
            client_id=settings.bank_client_id,
            client_secret=settings.bank_client_secret,
            app_key=settings.bank_app_key,
            tls=tls,
            now=now,
            boletos=boletos,
            transfers_url=settings.bank_transfers_url
            or (None if host in _OAUTH else f"{settings.bank_url}/transfers/v1"),
        ),
    }


def _tls(settings: Settings) -> ssl.SSLContext:
    """Verified as usual, and with our certificate where there is one: for tokens too."""
    context = ssl.create_default_context()
    if settings.bank_certificate is None:
        return context
    try:
        context.load_cert_chain(
            settings.bank_certificate,
            settings.bank_certificate_key,
            # Given in any case: without it OpenSSL would ask at the terminal.
            lambda: settings.bank_certificate_password,
        )
    except OSError as error:
        raise ValueError(f"BANK_CERTIFICATE cannot be used: {error}") from error
    return context
