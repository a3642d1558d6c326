"""Three roles of the database: the owner of the tables, the application (API and workers), and the reading role.

The owner runs migrations; no process that answers requests uses it. The application's role has the rights that its
statements need and cannot change a permanent row. The reading role is for reports and auditors and sees no sealed
column and no hash of a secret. Each migration grants exactly what the table below says.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
from msgspec import Struct

import sql
from runtime.servers.role_settings import SETTINGS
from sql import Connection


class Rights(Struct, frozen=True):
    """The rights on one table. `app`: the application's, from S(elect), I(nsert), U(pdate), D(elete). `hidden`: the
    columns that the reading role does not see; None: it sees nothing of the table."""

    app: str
    hidden: tuple[str, ...] | None = ()


_KEPT: Final = Rights("SI")
"""Permanent rows: written once, never changed or deleted."""
_ROWS: Final = Rights("SIU")
_ANY: Final = Rights("SIUD")
_UNSEEN: Final = Rights("SIUD", None)

RIGHTS: Final[Mapping[str, Rights]] = {
    # The journal and the read tables derived from it; a rebuild replaces read rows that differ.
    "journal": _KEPT,
    "seal": _KEPT,
    "audit": _KEPT,
    "account_clock": _ROWS,
    "read_charge": Rights("SIUD", ("payer_document_hash",)),
    "read_event": _ANY,
    "read_ledger": _ANY,
    "read_payment": _ANY,
    "read_refund": _ANY,
    "read_withdrawal": _ANY,
    "feed_begin": Rights("SU"),
    # Money.
    "charge": Rights("SIU", ("payer_sealed", "payer_document_hash")),
    "boleto": _ROWS,
    "payment": Rights("SIU", ("payer_sealed",)),
    "anomaly_resolved": _KEPT,
    "payment_reversal": _KEPT,
    "refund": _ROWS,
    "held_refund": Rights("SIU", ("request",)),
    "withdrawal": _ROWS,
    "auto_withdrawal": _ANY,
    "payout_change": _ROWS,
    "partner_share": _ROWS,
    "suspense": Rights("SIUD", ("payer_sealed",)),
    # Written by the owner alone: the application must not release payouts held after a restore.
    "recovery": Rights("S"),
    # A creation that failed gives its key back.
    "idempotency": Rights("SIUD", ("fingerprint",)),
    "schedule": Rights("SIU", ("payer_sealed", "payer_document_hash")),
    "schedule_charge": _KEPT,
    "payer_retention": _ROWS,
    "payer_kept": _ANY,
    # Accounts, programs and people.
    "account": _ROWS,
    "registration_check": _ANY,
    "account_note": _KEPT,
    "merchant_logo": _ANY,
    "integrator": _ROWS,
    "integrator_share": _ROWS,
    "partner_copy": Rights("SU"),
    "share_proposal": _ROWS,
    "receiving_key": _ROWS,
    "pix_suspension": _ANY,
    "sandbox_clock": _ROWS,
    "credential": Rights("SIU", ("secret_hash", "previous_secret_hash")),
    "access_token": _UNSEEN,
    "dashboard_user": Rights("SIUD", ("password_hash", "totp_sealed", "totp_step")),
    "dashboard_session": _UNSEEN,
    "recovery_code": _UNSEEN,
    "invitation": _ANY,
    "access_link": _UNSEEN,
    "sign_in_attempt": _UNSEEN,
    "sign_in_place": _UNSEEN,
    # Banks.
    "bank_order": Rights("SIUD", ("request", "outcome", "reply_to")),
    "bank_order_done": Rights("SI", ("outcome",)),
    "bank_hint": _ANY,
    "bank_hint_done": _KEPT,
    "bank_reconciled": _ANY,
    "bank_unreadable": Rights("SIUD", ("item_sealed",)),
    # The address ends in the secret token of the callback.
    "bank_callback": Rights("SIUD", ("url",)),
    "bank_call_hour": _ANY,
    "pix_location": _ANY,
    "pix_pool": _ROWS,
    "lease": _ANY,
    "worker_heartbeat": _ANY,
    # Webhooks: an address may contain a merchant's secret, an answer may contain anything.
    "webhook_endpoint": Rights("SIUD", ("url", "secret_sealed")),
    "webhook_old_secret": Rights("SIUD", ("secret_sealed",)),
    "webhook_lane": _ANY,
    "webhook_delivery": _ANY,
    # The partition of open deliveries; workers claim from it under its own name.
    "webhook_delivery_open": _ANY,
    "webhook_attempt": Rights("SIUD", ("answer",)),
    # Mails.
    "mail": Rights("SIUD", ("to_sealed", "to_hash", "note_sealed")),
    "mail_request": _ANY,
    "second_copy_request": _ROWS,
    "mail_stop": Rights("SI", ("to_hash",)),
    "caught_mail": _UNSEEN,
    "notice": _ANY,
    "program_payout": _ROWS,
    # Reports, verifications and the request log, whose old days are dropped as whole partitions.
    "report_position": Rights("SU"),
    "report_charge": _ANY,
    "report_cohort": _ANY,
    "report_due": _ANY,
    "report_wait": _ANY,
    "report_entry": _ANY,
    "report_refund": _ANY,
    "report_integrator": _ANY,
    "span_charge": _ANY,
    "span_entry": _ANY,
    "report_attempt_told": _ANY,
    "report_attempt": _ANY,
    "rebuild": _ANY,
    "verification": _ANY,
    "verification_part": _ROWS,
    "verification_difference": _KEPT,
    "request_log": Rights("SI", ("sent", "answered")),
    "migration": Rights("S"),
    "sealing_key": Rights("SI", None),
    # Cells: written by the owner alone, except that `quita rekey` updates sealed addresses.
    "this_cell": Rights("S"),
    "cell": Rights("SU", ("addresses_sealed", "next_sealed")),
    "number_block": Rights("S"),
    # The simulated bank's books, which hold no real money.
    "simulated_location": _UNSEEN,
    "simulated_cob": _UNSEEN,
    "simulated_pix": _UNSEEN,
    "simulated_callback": _UNSEEN,
    "simulated_fault": _UNSEEN,
    "simulated_signing_key": _UNSEEN,
    "simulated_boleto": _UNSEEN,
    "simulated_boleto_payment": _UNSEEN,
    "simulated_boleto_webhook": _UNSEEN,
    "simulated_boleto_rules": _UNSEEN,
    "simulated_devolucao": _UNSEEN,
    "simulated_transfer": _UNSEEN,
    "simulated_refund_rules": _UNSEEN,
    # Views with documents, which contain the sealed payer. The views for analysts (reporting_*) show no hidden column.
    "charge_view": Rights("S", None),
    "payment_view": Rights("S", None),
    "reporting_freshness": Rights("S"),
    "reporting_accounts": Rights("S"),
    "reporting_charges": Rights("S"),
    "reporting_payments": Rights("S"),
    "reporting_ledger": Rights("S"),
    "reporting_receipts_by_day": Rights("S"),
    "reporting_ledger_by_day": Rights("S"),
    "reporting_charges_by_day": Rights("S"),
    "reporting_boletos_by_due_date": Rights("S"),
    "reporting_time_to_pay": Rights("S"),
    "reporting_refunds_by_day": Rights("S"),
    "reporting_integrators": Rights("S"),
    "reporting_integrators_by_day": Rights("S"),
    "reporting_webhooks_by_day": Rights("S"),
}
SEQUENCES: Final = {"boleto_control": "USAGE", "journal_journal_id_seq": "SELECT", "audit_number_seq": "SELECT"}
"""The application's rights on sequences. A sequence behind an identity column needs no right of its own."""

_PRIVILEGES: Final = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}
_ITERATIONS: Final = 4096  # PostgreSQL's own default


class CannotGrant(Exception):
    """A role cannot be made or bound; the message is one line for the operator."""


_me = sql.one("roles.me", str)
_find = sql.maybe("roles.find", bool)
_make = sql.one("roles.make", str)
_grant = sql.many("roles.grant", str)
_grant_rest = sql.many("roles.grant_rest", str)
_settings = sql.many("roles.settings", str)


async def grant_all(conn: Connection, *, app_url: str | None, report_url: str | None) -> None:
    """Grant the roles that these URLs name their rights, and create missing roles. `conn` is the owner's, in a
    transaction. A URL that is None, or names a role that has the wider rights already, changes nothing."""
    given = {await _me(conn)}
    for url, acts in ((app_url, True), (report_url, False)):
        if url is None or (role := role_of(url)) in given:
            continue
        given.add(role)
        await _have(conn, role, url)
        await _run(conn, await _grant(conn, role=role, **_wanted(acts=acts)))
        await _run(conn, await _grant_rest(conn, role=role, acts=acts))
        if acts:
            await _set_defaults(conn, role)


async def _set_defaults(conn: Connection, role: str) -> None:
    """Set the session settings as the role's defaults, for its sessions behind a pooler; other sessions set them when
    they begin. The owner may lack the right to do so if an operator made the role by hand."""
    with suppress(asyncpg.InsufficientPrivilegeError):
        async with conn.transaction():
            await _run(conn, await _settings(conn, role=role, names=list(SETTINGS), values=list(SETTINGS.values())))


async def _have(conn: Connection, role: str, url: str) -> None:
    is_bound = await _find(conn, role=role)
    if is_bound is None:
        password = unquote(urlsplit(url).password or "")
        if not password or not password.isascii():
            raise CannotGrant(f"the role {role} is not there: CREATE ROLE {role} LOGIN, with a password")
        await _run(conn, [await _make(conn, role=role, verifier=_verifier(password))])
    elif not is_bound:
        raise CannotGrant(
            f"the role {role} is bound by no grant: it must be no superuser, make no roles, own no database"
            " and not belong to the owner of the tables"
        )


async def _run(conn: Connection, statements: Sequence[str]) -> None:
    if statements:
        await conn.execute(";\n".join(statements))


def _wanted(*, acts: bool) -> dict[str, list[str]]:
    rows = [(name, SEQUENCES[name], "") for name in SEQUENCES if acts]
    for name, rights in RIGHTS.items():
        if acts:
            rows.append((name, ",".join(_PRIVILEGES[letter] for letter in rights.app), ""))
        elif rights.hidden is not None:
            rows.append((name, "SELECT", ",".join(rights.hidden)))
    names, privileges, hidden = (list(column) for column in zip(*rows, strict=True))
    return {"names": names, "privileges": privileges, "hidden": hidden}


def role_of(url: str) -> str:
    """Return the role that a PostgreSQL URL names. Raises CannotGrant if it names none."""
    parts = urlsplit(url)
    role = unquote(parts.username or "") or parse_qs(parts.query).get("user", [""])[0]
    if not role:
        raise CannotGrant(
            "DATABASE_URL and the others must name a role, as in postgresql://role:password@host/database"
        )
    return role


def _verifier(password: str) -> str:
    """Return the SCRAM verifier that PostgreSQL stores for a password (RFC 5802), so that no statement log contains the
    password itself."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt64, stored64, server64 = (base64.b64encode(each).decode() for each in (salt, stored, server))
    return f"SCRAM-SHA-256${_ITERATIONS}:{salt64}${stored64}:{server64}"
