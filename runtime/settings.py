"""Everything an operator can set, read once from the environment when a process starts.

Durations carry their unit in the name. Secrets are never printed: `repr` shows the home folder and the port only.
"""

import os
import re
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from msgspec import Struct

from domain.client_address import HEADERS, Network
from domain.merchants.fees import FeeTerms, fee_faults
from runtime.limits.http_bounds import HttpBounds, read_http_bounds
from runtime.limits.kept import Kept, read_kept
from runtime.limits.rates import Rates, read_rates
from runtime.limits.variables import floats, nameservers, one_number, redis_address, switch, web_address, whole_number
from runtime.pace import Pace, read_pace
from runtime.production import (
    LOCAL_APP_KEY,
    LOCAL_CALLBACK_TOKEN,
    LOCAL_CLIENT_ID,
    LOCAL_SECRET,
    environment,
    production_faults,
)
from runtime.seal import SecretKeys, read_keys
from runtime.servers.addresses import read_databases
from runtime.servers.smtp import SmtpServer, read_mail_from, read_smtp
from runtime.watching import Watching, read_watching

# Attempts after the first one, in seconds (contract section 9): 13 attempts in about 72 h.
WEBHOOK_DELAYS_S: tuple[float, ...] = (
    5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 72_000, 86_400,
)  # fmt: skip
WEBHOOK_LEASE_S = 30.0
WEBHOOK_PAUSE_AFTER_S = 72 * 3600.0
WEBHOOK_HELD_S = 14 * 86_400.0
WEBHOOK_PAUSED_PROBE_S = 3_600.0
# Long enough for a program to cancel a mistake, short enough not to delay the money.
WITHDRAWAL_GRACE_S = 5.0
# The largest whole number: a thousand million reais in cents, and more connections and orders than there are.
_WHOLE_MAX = 10**11
_DAYS_MAX = 36_500
_PROCESSES_MAX = 1_000
# A location of the sandbox is this, "/pix/v2/cobv/" and 22 characters, and at most 77 in all.
BASE_URL_HOST_MAX = 42
# After banking hours: the day's boletos are in, and the merchant's own bank shows the money the same evening.
DAILY_WITHDRAWAL_HOUR = 19


class Settings(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    environment: str
    """QUITA_ENV: `production`, which refuses to start with any setting of local work, or `local`."""
    home: Path
    """QUITA_HOME: the folder of the embedded servers' data, of dev.json and of the local key."""
    database_url: str
    """DATABASE_URL: as the role of the API and the workers. The owner's URL is no setting of theirs (sql/roles.py)."""
    database_report_url: str
    """DATABASE_REPORT_URL: as the role that only reads, for reports; DATABASE_URL unless given."""
    database_read_url: str
    """DATABASE_READ_URL: a standby for lists, sums and pages, as the role of DATABASE_URL; none unless given."""
    statements_kept: int
    """Prepared statements kept by each connection; 0 with DATABASE_PREPARED=0, which PgBouncer before 1.21 needs."""
    cell: int
    """CELL: the number of the cell (runtime/cells) that a worker works for; 0, home, unless given."""
    cell_name: str = ""
    """Its name in the directory; empty at home."""
    directory_url: str
    """DATABASE_URL as given, even where `database_url` is another cell's: home's, with the directory of cells."""
    redis_url: str
    port: int
    host: str
    base_url: str
    """BASE_URL: where merchants' programs reach /v1."""
    app_url: str
    """APP_URL: where payers and merchants' people reach /pagar and /painel."""
    docs_url: str
    banks: tuple[str, ...]
    """BANKS: COMPE codes, commas between them. The first carries new charges; the others serve older ones."""
    bank_url: str
    """BANK_URL: the bank of production mode; locally the simulated bank's own process."""
    bank_client_id: str
    bank_client_secret: str
    bank_app_key: str
    bank_boleto_client_id: str
    """BANK_BOLETO_CLIENT_ID, _SECRET, BANK_BOLETO_APP_KEY: the application for boletos, when it is not the one for
    PIX."""
    bank_boleto_client_secret: str
    bank_boleto_app_key: str
    bank_convenio: str
    """BANK_CONVENIO: the agreement for boletos, seven digits, of type 4 (numbers chosen by us). Unless given, it is the
    one that the bank's homologation shares among all developers."""
    bank_carteira: str
    bank_variacao: int
    bank_agencia: int
    """BANK_AGENCIA, BANK_CONTA: without check digits."""
    bank_conta: int
    bank_certificate: Path | None
    """BANK_CERTIFICATE: a PEM file with our client certificate and its chain, for banks that ask for one; none unless
    given."""
    bank_certificate_key: Path | None
    """BANK_CERTIFICATE_KEY: the PEM file of its key, when that is another file."""
    bank_certificate_password: str
    """BANK_CERTIFICATE_PASSWORD: the password of the key, when it has one."""
    bank_transfers_url: str
    """BANK_TRANSFERS_URL: the bank's address to send PIX by (docs/decisions/0007); empty when BANK_URL tells it."""
    bank_callback_token: str
    """The unguessable part of the path on which the bank calls us back."""
    bank_history_kept_days: int
    """BANK_HISTORY_KEPT_DAYS: how long the outcomes of bank orders are looked up; then whole months are detached."""
    secret_key: SecretKeys
    """SECRET_KEY (64 hex digits, or several keys as id:hex,id:hex): root of all keys that seal and sign."""
    api_processes: int
    webhook_allow_private: bool
    """WEBHOOK_ALLOW_PRIVATE=1 lets webhooks go to private addresses and to plain http: local work only."""
    webhook_delays_s: tuple[float, ...]
    webhook_jitter: float
    webhook_lease_s: float
    """WEBHOOK_LEASE_S: how long a delivery stays with a worker that died; longer than an attempt and its storing."""
    webhook_pause_after_s: float
    """WEBHOOK_PAUSE_AFTER_S: the time without a success after which a lane is paused."""
    webhook_held_s: float
    """WEBHOOK_HELD_S: how long due deliveries are held while a lane is paused."""
    webhook_paused_probe_s: float
    """WEBHOOK_PAUSED_PROBE_S: how often a paused lane is probed."""
    webhook_nameservers: tuple[str, ...]
    """WEBHOOK_NAMESERVERS: asked for the addresses of webhooks, as `address[:port]`; the system's unless given."""
    smtp: SmtpServer | None
    """SMTP_URL: the server for our mails, such as smtp://user:password@host:587?starttls=1, or smtps://host."""
    mail_from: str
    """MAIL_FROM: the address mails come from; required with SMTP_URL."""
    mail_catcher: bool
    """MAIL_CATCHER=1 keeps mails and shows them at {app_url}/correio: local work only, off when SMTP_URL is set."""
    mail_kept_days: int
    """MAIL_KEPT_DAYS: how long it is known whether a mail was sent, or why not; its address is kept as long."""
    withdrawal_grace_s: float
    """WITHDRAWAL_GRACE_S: how long a withdrawal stays pending, and can be cancelled, before the bank is asked."""
    daily_withdrawal_hour: int
    """DAILY_WITHDRAWAL_HOUR: from this hour on, in Sao Paulo, accounts that want it are paid out once a day."""
    refund_transfers_cents_max: int
    """REFUND_TRANSFERS_CENTS_MAX: refunds to PIX keys, per account and day, without staff's release; 0 holds all."""
    support_contact: str
    """SUPPORT_CONTACT: the contact for merchants: an e-mail address, a telephone or a page."""
    cep_url: str
    """CEP_URL: the service that knows a postal code's address, {cep} for its digits; none is asked unless given."""
    partner_share_held_days: int
    """PARTNER_SHARE_HELD_DAYS: from its payment until a share is in a balance; 180 unless QUITA_ENV is local (0)."""
    fees: FeeTerms
    """PIX_FEE_BPS, PIX_FEE_CENTS, PIX_FEE_CENTS_MIN, PIX_FEE_CENTS_MAX, BOLETO_FEE_CENTS, WITHDRAWAL_FEE_CENTS: what
    accounts without terms of their own are charged; nothing unless given."""
    cnpj_with_letters: bool
    rate_per_s: int
    rate_burst: int
    trusted_proxies: tuple[Network, ...]
    """TRUSTED_PROXIES: networks (CIDR, commas between them) whose client addresses are believed; none unless given."""
    trusted_proxy_header: str
    """TRUSTED_PROXY_HEADER: x-forwarded-for, or forwarded (RFC 7239): the header that those proxies write."""
    staff_totp_required: bool
    """STAFF_TOTP_REQUIRED=0 lets the platform's staff work without a second factor: local work."""
    money_totp_required: bool
    """MONEY_TOTP_REQUIRED: whoever moves money in production needs a second factor; on unless QUITA_ENV is local."""
    pace: Pace
    """How much is done at once."""
    http: HttpBounds
    """The bounds of a connection."""
    rates: Rates
    """How often one client may ask for what needs no token."""
    watching: Watching
    kept: Kept

    @property
    def bank(self) -> str:
        """The COMPE code of the bank that carries new charges."""
        return self.banks[0]

    def __repr__(self) -> str:
        return f"Settings(home={str(self.home)!r}, port={self.port})"


def read_settings(env: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the environment; raises ValueError naming the variable that is wrong or missing."""
    pix = _bank_application(env, "BANK", (LOCAL_CLIENT_ID, LOCAL_SECRET, LOCAL_APP_KEY))
    boleto = _bank_application(env, "BANK_BOLETO", pix)
    base_url = _base_url(env, port := _positive_integer(env, "PORT", 8000, 65_535))
    watching = read_watching(env)
    if watching.metrics_port == port:
        raise ValueError("METRICS_PORT must not be PORT: what answers there would be taken for the API")
    return Settings(
        environment=_checked_environment(env),
        home=Path(env.get("QUITA_HOME") or ".quita").resolve(),
        **read_databases(env),
        redis_url=redis_address(env),
        port=port,
        host=env.get("HOST") or "127.0.0.1",
        base_url=base_url,
        app_url=web_address(env, "APP_URL", base_url),
        docs_url=web_address(env, "DOCS_URL", f"{base_url}/docs"),
        banks=_bank_codes(env, "BANKS", "001"),
        bank_url=web_address(env, "BANK_URL", "http://127.0.0.1:8009"),
        bank_client_id=pix[0],
        bank_client_secret=pix[1],
        bank_app_key=pix[2],
        bank_boleto_client_id=boleto[0],
        bank_boleto_client_secret=boleto[1],
        bank_boleto_app_key=boleto[2],
        bank_convenio=_digits(env, "BANK_CONVENIO", "3128557", 7),
        bank_carteira=_digits(env, "BANK_CARTEIRA", "17", 2),
        bank_variacao=_integer(env, "BANK_VARIACAO", 35),
        bank_agencia=_integer(env, "BANK_AGENCIA", 452),
        bank_conta=_integer(env, "BANK_CONTA", 123873),
        bank_certificate=_existing_file(env, "BANK_CERTIFICATE"),
        bank_certificate_key=_existing_file(env, "BANK_CERTIFICATE_KEY"),
        bank_certificate_password=env.get("BANK_CERTIFICATE_PASSWORD", ""),
        bank_transfers_url=web_address(env, "BANK_TRANSFERS_URL", ""),
        bank_callback_token=env.get("BANK_CALLBACK_TOKEN") or LOCAL_CALLBACK_TOKEN,
        bank_history_kept_days=_positive_integer(env, "BANK_HISTORY_KEPT_DAYS", 400, _DAYS_MAX),
        secret_key=read_keys(_required(env, "SECRET_KEY")),
        api_processes=_positive_integer(env, "API_PROCESSES", 2, _PROCESSES_MAX),
        **_webhook_settings(env),
        smtp=(smtp := read_smtp(env)),
        mail_from=read_mail_from(env, required=smtp is not None),
        mail_catcher=switch(env, "MAIL_CATCHER") and smtp is None,
        mail_kept_days=_positive_integer(env, "MAIL_KEPT_DAYS", 400, _DAYS_MAX),
        **_money_settings(env),
        **_people_settings(env),
        cnpj_with_letters=switch(env, "CNPJ_WITH_LETTERS"),
        rate_per_s=_positive_integer(env, "RATE_PER_S", 1000),
        rate_burst=_positive_integer(env, "RATE_BURST", 2000),
        trusted_proxies=_networks(env, "TRUSTED_PROXIES"),
        trusted_proxy_header=_proxy_header(env),
        staff_totp_required=switch(env, "STAFF_TOTP_REQUIRED", "1"),
        money_totp_required=switch(env, "MONEY_TOTP_REQUIRED", "0" if environment(env) == "local" else "1"),
        pace=read_pace(env),
        http=read_http_bounds(env),
        rates=read_rates(env),
        watching=watching,
        kept=read_kept(env),
    )


def _webhook_settings(env: Mapping[str, str]) -> dict[str, Any]:
    return {
        "webhook_allow_private": switch(env, "WEBHOOK_ALLOW_PRIVATE"),
        "webhook_delays_s": floats(env, "WEBHOOK_DELAYS_S", WEBHOOK_DELAYS_S),
        # With a larger share a delay could be negative: the attempt would be due before it is planned.
        "webhook_jitter": one_number(env, "WEBHOOK_JITTER", 0.2, most=1.0),
        # Without a lease each worker sends what another is sending; without an interval a lane is probed without end.
        "webhook_lease_s": one_number(env, "WEBHOOK_LEASE_S", WEBHOOK_LEASE_S, least=1.0),
        "webhook_pause_after_s": one_number(env, "WEBHOOK_PAUSE_AFTER_S", WEBHOOK_PAUSE_AFTER_S),
        "webhook_held_s": one_number(env, "WEBHOOK_HELD_S", WEBHOOK_HELD_S),
        "webhook_paused_probe_s": one_number(env, "WEBHOOK_PAUSED_PROBE_S", WEBHOOK_PAUSED_PROBE_S, least=1.0),
        "webhook_nameservers": nameservers(env, "WEBHOOK_NAMESERVERS"),
    }


def _checked_environment(env: Mapping[str, str]) -> str:
    given = environment(env)
    if given == "production" and (faults := production_faults(env)):
        raise ValueError(f"QUITA_ENV=production does not start like this: {'; '.join(faults)}")
    return given


def _bank_application(env: Mapping[str, str], prefix: str, default: tuple[str, str, str]) -> tuple[str, str, str]:
    """The credentials that the bank's portal gives an application: client id, client secret, app key."""
    names = (f"{prefix}_CLIENT_ID", f"{prefix}_CLIENT_SECRET", f"{prefix}_APP_KEY")
    client_id, client_secret, app_key = (env.get(name) or each for name, each in zip(names, default, strict=True))
    return client_id, client_secret, app_key


def _base_url(env: Mapping[str, str], port: int) -> str:
    url = web_address(env, "BASE_URL", f"http://127.0.0.1:{port}")
    if len(url.partition("://")[2]) > BASE_URL_HOST_MAX:
        raise ValueError(
            f"BASE_URL must have at most {BASE_URL_HOST_MAX} characters after ://;"
            " with more a PIX location does not fit in a QR code"
        )
    return url


def _networks(env: Mapping[str, str], name: str) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(part.strip()) for part in env.get(name, "").split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"{name} must be networks such as 10.0.0.0/8: {error}") from None


def _proxy_header(env: Mapping[str, str]) -> str:
    given = env.get("TRUSTED_PROXY_HEADER") or HEADERS[0]
    if given.lower() not in HEADERS:
        raise ValueError(f"TRUSTED_PROXY_HEADER must be one of {', '.join(HEADERS)}, not {given!r}")
    return given.lower()


def _required(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "")
    if not value:
        raise ValueError(f"{name} is not set")
    return value


def _digits(env: Mapping[str, str], name: str, default: str, count: int) -> str:
    text = env.get(name) or default
    if len(text) != count or not text.isascii() or not text.isdigit() or text[0] == "0":
        raise ValueError(f"{name} must have {count} digits and not begin with 0")
    return text


def _integer(env: Mapping[str, str], name: str, default: int, most: int = _WHOLE_MAX, *, least: int = 0) -> int:
    number = whole_number(env, name, least, most)
    return default if number is None else number


def _positive_integer(env: Mapping[str, str], name: str, default: int, most: int = _WHOLE_MAX) -> int:
    return _integer(env, name, default, most, least=1)


def _bank_codes(env: Mapping[str, str], name: str, default: str) -> tuple[str, ...]:
    codes = tuple((env.get(name) or default).split(","))
    if not all(re.fullmatch(r"[0-9]{3}", code) for code in codes):
        raise ValueError(f"{name} must be codes of three digits with commas between them")
    return codes


def _existing_file(env: Mapping[str, str], name: str) -> Path | None:
    path = Path(env[name]) if env.get(name) else None
    if path is not None and not path.is_file():
        raise ValueError(f"{name} must be a file that is there")
    return path


def _people_settings(env: Mapping[str, str]) -> dict[str, Any]:
    url = env.get("CEP_URL", "").strip()
    if url and ("{cep}" not in url or not url.startswith(("https://", "http://"))):
        raise ValueError(f"CEP_URL must be a URL with {{cep}} in it, not {url!r}")
    return {"support_contact": env.get("SUPPORT_CONTACT", "").strip(), "cep_url": url}


def _money_settings(env: Mapping[str, str]) -> dict[str, Any]:
    return {
        "withdrawal_grace_s": one_number(env, "WITHDRAWAL_GRACE_S", WITHDRAWAL_GRACE_S),
        "daily_withdrawal_hour": _integer(env, "DAILY_WITHDRAWAL_HOUR", DAILY_WITHDRAWAL_HOUR, 23),
        "refund_transfers_cents_max": _integer(env, "REFUND_TRANSFERS_CENTS_MAX", 500_000),
        "partner_share_held_days": _integer(
            env, "PARTNER_SHARE_HELD_DAYS", 0 if environment(env) == "local" else 180, _DAYS_MAX
        ),
        "fees": _fees(env),
    }


def _fees(env: Mapping[str, str]) -> FeeTerms:
    most = env.get("PIX_FEE_CENTS_MAX")
    terms = FeeTerms(
        pix_bps=_integer(env, "PIX_FEE_BPS", 0),
        pix_cents=_integer(env, "PIX_FEE_CENTS", 0),
        pix_cents_min=_integer(env, "PIX_FEE_CENTS_MIN", 0),
        pix_cents_max=_integer(env, "PIX_FEE_CENTS_MAX", 0) if most else None,
        boleto_cents=_integer(env, "BOLETO_FEE_CENTS", 0),
        withdrawal_cents=_integer(env, "WITHDRAWAL_FEE_CENTS", 0),
    )
    if faults := fee_faults(terms):
        names = {"pix_bps": "PIX_FEE_BPS"} | {
            each: each.replace("_cents", "_fee_cents").upper() for each in faults if each != "pix_bps"
        }
        raise ValueError("; ".join(f"{names[each]} {fault}" for each, fault in faults.items()))
    return terms
