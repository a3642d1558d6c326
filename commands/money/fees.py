"""The fee terms of an account, which staff set in place of the platform's default terms.

New terms apply to payments that the bank confirms, and withdrawals that are requested, from then on. Whatever was
booked before keeps its fee, which the journal holds together with the terms that gave it.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

import sql
from commands.journal import Posting
from commands.people.audit import SEEN_BY_THE_ACCOUNT, Origin, audit_for_account
from commands.people.tell import mail_owners
from domain.brazilian import amount, brl
from domain.errors import Code, Refused
from domain.merchants.fees import FeeTerms, fee_faults, read_fees
from domain.merchants.staff import REASON_MAX, on_one_line, reason_faults
from runtime.seal import Seal
from sql import Connection

FEE_CHARGED: Final = "fee.charged"
FEE_GIVEN_BACK: Final = "fee.given_back"
SET: Final = "merchant.fees_set"
"""The action in both audit logs, and the kind of the mail to the owners."""
DEFAULT: Final = "padrão da plataforma"

_find_fees = sql.maybe("account.fees", bytes)
_set_fees = sql.maybe("account.set_fees", UUID)


def fee_postings(posting: Posting, cents: int) -> list[Posting]:
    """Returns the posting of a withdrawal's fee, to be posted with `posting`; an empty list without an entry or a fee.
    The fee is debited (and covered) where the withdrawal is debited, and given back where the withdrawal is."""
    if posting.entry is None or not cents:
        return []
    is_debit = posting.entry.amount_cents < 0
    payload = {name: value for name, value in posting.payload.items() if name == "external_id"}
    fee = replace(
        posting,
        kind=FEE_CHARGED if is_debit else FEE_GIVEN_BACK,
        payload={"fee": {"cents": cents}, **payload},
        event=None,
        entry=replace(posting.entry, type="fee", amount_cents=-cents if is_debit else cents),
    )
    return [fee]


async def own_terms(conn: Connection, account_id: UUID) -> FeeTerms | None:
    """Returns the account's own fee terms; None for an account with the platform's default terms."""
    fees = await _find_fees(conn, account_id=account_id)
    return None if fees is None else read_fees(fees)


async def set_fees(
    conn: Connection,
    account_id: UUID,
    terms: FeeTerms | None,
    reason: str,
    origin: Origin,
    *,
    now: datetime,
    seal: Seal,
) -> None:
    """Set the account's fee terms from now on; None restores the platform's default. Writes the account's own audit log
    and mails its owners; the caller writes the platform's audit log, with `fee_facts`.

    Refused(VALIDATION_ERROR) with the invalid fields, `reason` among them; Refused(WALLET_ACCOUNT_NOT_FOUND) for an
    unknown account.
    """
    if wrong := {**({} if terms is None else fee_faults(terms)), **reason_faults(reason)}:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    stored = await _set_fees(conn, account_id=account_id, fees=None if terms is None else msgspec.json.encode(terms))
    if stored is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
    facts = fee_facts(terms, reason)
    await audit_for_account(conn, account_id, SET, facts, origin, now=now)
    await mail_owners(conn, account_id, SET, {**facts, "by": SEEN_BY_THE_ACCOUNT}, now=now, seal=seal)


def fee_facts(terms: FeeTerms | None, reason: str) -> dict[str, str]:
    """Returns the facts of a change for the audit logs and the mail."""
    texts = {"fees": DEFAULT} if terms is None else fee_texts(terms)
    return {**texts, "reason": on_one_line(reason)[:REASON_MAX]}


def fee_texts(terms: FeeTerms) -> dict[str, str]:
    """Returns the Portuguese text of each kind of fee, "nenhuma" where there is none."""
    parts = []
    if terms.pix_bps:
        parts.append(f"{amount(terms.pix_bps)}%")
    if terms.pix_cents:
        parts.append(brl(terms.pix_cents))
    pix = " + ".join(parts)
    if terms.pix_cents_min:
        pix = f"{pix}, no mínimo {brl(terms.pix_cents_min)}" if pix else brl(terms.pix_cents_min)
    if pix and terms.pix_cents_max is not None:
        pix += f", no máximo {brl(terms.pix_cents_max)}"
    return {
        "fee_pix": pix or "nenhuma",
        "fee_boleto": brl(terms.boleto_cents) if terms.boleto_cents else "nenhuma",
        "fee_withdrawal": brl(terms.withdrawal_cents) if terms.withdrawal_cents else "nenhuma",
    }
