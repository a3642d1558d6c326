"""Banco do Brasil as configured by settings: its hosts, our applications there, the agreement, its callbacks."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct

from banks.banco_do_brasil.agreement import COMPE, ConvenioAgreement
from banks.banco_do_brasil.callbacks import boleto_hints, pix_hints
from banks.banco_do_brasil.cobrancas import DETAIL_AGE_S, Cobrancas
from banks.banco_do_brasil.cobv import ApiCobv
from banks.banco_do_brasil.pix import ApiPix
from banks.banco_do_brasil.transfers import PixTransfers
from banks.banco_do_brasil.transport import Transport
from banks.certificate import certificate_ends, certificate_ends_at, client_tls
from runtime.settings import Settings

# The token host for each of the bank's API hosts. Any other host (the simulated bank) issues its own tokens.
_OAUTH: Final = {
    "api-pix.bb.com.br": "https://oauth.bb.com.br",
    "api-pix.hm.bb.com.br": "https://oauth.hm.bb.com.br",
    "api.hm.bb.com.br": "https://oauth.hm.bb.com.br",
}
# None of these hosts has an API for sending PIX that we know of, so transfers need BANK_TRANSFERS_URL; the simulated
# bank has such an API. Boletos have another host than PIX, whose production host asks for client certificates.
_BOLETOS: Final = {
    "api-pix.bb.com.br": "https://api.bb.com.br",
    "api-pix.hm.bb.com.br": "https://api.hm.bb.com.br",
}

CALLBACKS: Final[Mapping[str, Callable[[bytes], dict[str, str]]]] = {
    "": pix_hints,
    "pix": pix_hints,
    "boletos": boleto_hints,
}


class BancoDoBrasil(Struct, frozen=True):
    pix: ApiPix
    cobvs: ApiCobv
    boletos: Cobrancas
    transfers: PixTransfers


def open_bank(
    settings: Settings,
    http: aiohttp.ClientSession,
    now: Callable[[], datetime],
    *,
    detail_age_s: float = DETAIL_AGE_S,
) -> BancoDoBrasil:
    """Open the bank at BANK_URL. In the bank's portal PIX and boletos are separate applications, each with its own
    tokens.

    ValueError if our client certificate cannot be read.
    """
    host = urlsplit(settings.bank_url).hostname or ""
    oauth_url = f"{_OAUTH.get(host, settings.bank_url)}/oauth/token"
    tls = client_tls(settings)
    ends_at = certificate_ends_at(settings)
    if ends_at is not None:
        certificate_ends.labels(COMPE).set(ends_at.timestamp())

    def certificate_ended() -> str:
        # If the certificate has expired, the bank may just close the connection, like any other network error.
        return f" (BANK_CERTIFICATE ended at {ends_at:%Y-%m-%d})" if ends_at is not None and ends_at <= now() else ""

    def transport(client_id: str, client_secret: str, app_key: str) -> Transport:
        return Transport(
            http,
            oauth_url=oauth_url,
            client_id=client_id,
            client_secret=client_secret,
            app_key=app_key,
            tls=tls,
            known_fault=certificate_ended,
        )

    of_pix = transport(settings.bank_client_id, settings.bank_client_secret, settings.bank_app_key)
    of_boletos = transport(
        settings.bank_boleto_client_id, settings.bank_boleto_client_secret, settings.bank_boleto_app_key
    )
    pix_url = f"{settings.bank_url}/pix/v2"
    transfers_url = settings.bank_transfers_url or (None if host in _OAUTH else f"{settings.bank_url}/transfers/v1")
    pix = ApiPix(of_pix, api_url=pix_url, now=now)
    boletos = Cobrancas(
        of_boletos,
        api_url=f"{_BOLETOS.get(host, settings.bank_url)}/cobrancas/v2",
        agreement=agreement_of(settings),
        pix_received=pix.received_of,
        now=now,
        detail_age_s=detail_age_s,
    )
    return BancoDoBrasil(
        pix,
        ApiCobv(of_pix, api_url=pix_url, now=now),
        boletos,
        PixTransfers(of_pix, api_url=pix_url, transfers_url=transfers_url),
    )


def agreement_of(settings: Settings) -> ConvenioAgreement:
    return ConvenioAgreement(
        convenio=settings.bank_convenio,
        carteira=settings.bank_carteira,
        variacao=settings.bank_variacao,
        agencia=settings.bank_agencia,
        conta=settings.bank_conta,
    )
