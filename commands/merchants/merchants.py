"""Create a demo merchant for local work: account, credentials of both modes, a dashboard user, a partner code.

Values that are not given are invented. Real merchants are registered by commands/merchants/registration.py.
"""

import hashlib
import re
import secrets
import unicodedata
from base64 import urlsafe_b64encode
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct
from stdnum.br import cnpj

import sql
from commands.merchants.integrators import check_name, create_integrator
from commands.merchants.registration import Address, address_faults, insert_account
from commands.people.people import add_person
from domain.documents import well_formed
from domain.errors import Code, Refused
from domain.refund import is_pix_key
from runtime.cells.number import marked
from runtime.ids import new_id
from runtime.passwords import hash_password
from sql import Connection

ALL_SCOPES = (
    "charges:create", "charges:read", "payments:read", "refunds:create", "withdrawals:create", "schedules:write",
)  # fmt: skip


RATE_MAX = 1_000_000


class NewCredential(Struct, frozen=True):
    """A new credential, shown once; only the hash of its secret is stored."""

    client_id: str
    client_secret: str


def client_id_of(chance: bytes, *, test: bool) -> str:
    """Returns a client_id made of `chance`. It names its mode and, after the underscore, its cell
    (runtime/cells/number.py)."""
    return f"{'test' if test else 'production'}_{marked(chance).hex()}"


def secret_of(chance: bytes) -> str:
    """Returns a credential's secret made of random bytes, URL-safe. A leading hyphen, which one secret in 64 would
    have, is replaced, because a command line takes it for an option."""
    text = urlsafe_b64encode(chance).decode().rstrip("=")
    return "_" + text[1:] if text.startswith("-") else text


class Dashboard(Struct, frozen=True):
    email: str
    password: str


class MerchantCreated(Struct, frozen=True):
    """A merchant's record as dev.json holds it (contract section 15)."""

    name: str
    account_id: UUID
    test: NewCredential
    production: NewCredential
    dashboard: Dashboard
    integrator_code: str


insert_credential = sql.run("credential_admin.create")
store_rate = sql.maybe("account.set_rate", UUID)

_DEMO_ADDRESS = Address("Rua das Palmeiras", "100", "Centro", "São Paulo", "SP", "01001000")
"""A fictional address for demo merchants."""


async def create_merchant(
    conn: Connection,
    *,
    name: str,
    address: bool,
    kyc: str,
    now: datetime,
    document: str | None = None,
    email: str | None = None,
    payout_key: str | None = None,
    at: Address = _DEMO_ADDRESS,
) -> MerchantCreated:
    """Create one merchant, complete unless `address` is False; `kyc` is pending, approved or rejected.

    The secrets are returned once. Refused(VALIDATION_ERROR) for an invalid name or state, and for any other given value
    that is invalid.
    """
    check_name(name)
    if wrong := address_faults(at):
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    if payout_key is not None and not is_pix_key(payout_key):
        raise Refused(Code.VALIDATION_ERROR, fields={"payout_key": "must be a PIX key"})
    if document is not None and not well_formed(document, letters=True):
        raise Refused(Code.VALIDATION_ERROR, fields={"document": "must be a CPF or CNPJ without punctuation"})
    if kyc not in ("pending", "approved", "rejected"):
        raise Refused(Code.VALIDATION_ERROR, fields={"kyc": "must be pending, approved or rejected"})
    account_id = new_id()
    await insert_account(
        conn,
        account_id=account_id,
        name=name,
        document=document or _fictional_cnpj(account_id),
        city=at.city,
        address=msgspec.json.encode(at) if address else None,
        kyc=kyc,
        pix_key=payout_key or str(account_id),
        created_at=now,
    )
    made = {}
    for mode, test in (("test", True), ("production", False)):
        client_id = client_id_of(secrets.token_bytes(12), test=test)
        credential = NewCredential(client_id, secret_of(secrets.token_bytes(32)))
        await insert_credential(
            conn,
            client_id=credential.client_id,
            account_id=account_id,
            test=test,
            secret_hash=hashlib.sha256(credential.client_secret.encode()).digest(),
            scopes=list(ALL_SCOPES),
            name=None,
            by=None,
            now=now,
        )
        made[mode] = credential
    integrator = await create_integrator(conn, name=name, account_id=account_id, now=now)
    email = email or f"{_slug(name)}.{account_id.hex[-6:]}@example.com"
    dashboard = Dashboard(email, secrets.token_urlsafe(12))
    await add_person(conn, account_id, dashboard.email, "owner", hash_password(dashboard.password), now=now)
    return MerchantCreated(name, account_id, made["test"], made["production"], dashboard, integrator.integrador_code)


async def set_rate(conn: Connection, account_id: UUID, *, per_s: int | None, burst: int | None) -> None:
    """Set the rate limit of each credential of the account: requests a second, and the burst (contract section 14).
    None is the platform's default. In force everywhere within seconds. Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown
    account."""
    wrong = {
        name: f"must be from 1 to {RATE_MAX}"
        for name, value in (("per_second", per_s), ("burst", burst))
        if value is not None and not 1 <= value <= RATE_MAX
    }
    if wrong:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    if await store_rate(conn, account_id=account_id, rate_per_s=per_s, rate_burst=burst) is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40] or "loja"


def _fictional_cnpj(account_id: UUID) -> str:
    """Returns a CNPJ with right check digits, derived from the id, for accounts registered without a document."""
    base = f"{account_id.int % 10**8:08}0001"
    return base + str(cnpj.calc_check_digits(base))
