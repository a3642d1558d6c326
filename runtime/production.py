"""The check that keeps QUITA_ENV=production from starting with any setting of local work: the money is real."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from runtime.seal import read_keys

ENVIRONMENTS = ("local", "production")
LOCAL_CLIENT_ID = "quita-local"
LOCAL_APP_KEY = "quita-local-app"
LOCAL_SECRET = "quita-local-secret"  # noqa: S105 - of the simulated bank
LOCAL_CALLBACK_TOKEN = "local"  # noqa: S105 - of the simulated bank
CALLBACK_TOKEN_MIN = 24
BANK_SECRET_MIN = 16
_DISTINCT_BYTES_MIN = 8
"""Fewer than 8 of 32 random bytes are distinct once in 10^30 keys."""


def environment(env: Mapping[str, str]) -> str:
    """QUITA_ENV: `production`, which the image and compose set, or `local`, the default."""
    given = env.get("QUITA_ENV") or ENVIRONMENTS[0]
    if given not in ENVIRONMENTS:
        raise ValueError(f"QUITA_ENV must be {' or '.join(ENVIRONMENTS)}, not {given!r}")
    return given


def production_faults(env: Mapping[str, str]) -> list[str]:
    """The faults that keep this environment from production, each naming its variable; no secret is quoted."""
    return list(_faults(env))


def _faults(env: Mapping[str, str]) -> Iterator[str]:
    yield from _secret_faults(env)
    if env.get("DATABASE_OWNER_URL", "") not in ("", env.get("DATABASE_URL", "")):
        yield "DATABASE_OWNER_URL must not be set: only commands need it, and its owner may change the books"
    for name in ("BASE_URL", "APP_URL", "BANK_URL", "BANK_TRANSFERS_URL"):
        # The pages are at BASE_URL unless APP_URL says otherwise; not every bank sends PIX for us.
        optional = {"APP_URL": env.get("BASE_URL", ""), "BANK_TRANSFERS_URL": "https://"}
        if not (env.get(name) or optional.get(name, "")).startswith("https://"):
            yield f"{name} must begin with https://"
    if len({bool(env.get(name)) for name in ("BANK_CONVENIO", "BANK_AGENCIA", "BANK_CONTA")}) > 1:
        # The defaults are those of the bank's homologation: boletos would be printed with somebody else's account.
        yield "BANK_CONVENIO, BANK_AGENCIA and BANK_CONTA must be set together"
    if not (bank := env.get("BANK_URL", "")) or is_loopback(bank) or urlsplit(bank).hostname == "bank":
        yield "BANK_URL must be a bank's: the simulated bank keeps no money"
    if env.get("WEBHOOK_ALLOW_PRIVATE", "0") == "1":
        yield "WEBHOOK_ALLOW_PRIVATE must not be 1: merchants could have our own network called"
    if env.get("MAIL_CATCHER", "0") == "1":
        yield "MAIL_CATCHER must not be 1: whoever opens it reads payers' mails"
    if not env.get("SMTP_URL"):
        yield "SMTP_URL is not set: owners would not hear of what is done with their money"
    if env.get("STAFF_TOTP_REQUIRED", "1") == "0":
        yield "STAFF_TOTP_REQUIRED must not be 0: staff release money"


def _secret_faults(env: Mapping[str, str]) -> Iterator[str]:
    try:
        keys = read_keys(env.get("SECRET_KEY", "")).keys
    except ValueError:
        keys = ()
    if not keys or any(len(set(key)) < _DISTINCT_BYTES_MIN for _, key in keys):
        yield "SECRET_KEY must be 64 random hex digits (openssl rand -hex 32), or several such keys as id:hex,id:hex"
    token = env.get("BANK_CALLBACK_TOKEN", "")
    if len(token) < CALLBACK_TOKEN_MIN or token == LOCAL_CALLBACK_TOKEN:
        yield f"BANK_CALLBACK_TOKEN must be a random word of {CALLBACK_TOKEN_MIN} characters or more"
    for name in ("BANK_CLIENT_SECRET", "BANK_BOLETO_CLIENT_SECRET"):
        secret = env.get(name, "")
        if name == "BANK_BOLETO_CLIENT_SECRET" and not secret:
            continue  # one application for both
        if len(secret) < BANK_SECRET_MIN or secret == LOCAL_SECRET:
            yield f"{name} must be the bank's own, of {BANK_SECRET_MIN} characters or more"
    for name, local in (("BANK_CLIENT_ID", LOCAL_CLIENT_ID), ("BANK_APP_KEY", LOCAL_APP_KEY)):
        if env.get(name, local) in ("", local):
            yield f"{name} must be the bank's own"


def is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
