"""What a comparison of the banks' lists with our books found (workers/incoming/statement.py)."""

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

DIFFERENCES_MAX: Final = 10_000
"""More than people look at one by one: then the instant, the bank or the database is not the one that was meant."""


class StatementDifference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`of`: pix | boleto | return | transfer. `what`: missing_here | missing_at_bank | unanswered (not listed, and the
    bank does not answer about it) | amount | unreadable | not_listed (the bank has no such list). `reference`
    is the bank's name for the item. Cents; None where it is missing."""

    bank: str
    of: str
    what: str
    reference: str
    bank_cents: int | None = None
    here_cents: int | None = None
    account_id: UUID | None = None
    """The account of the item; of a transfer unknown here, the account whose payout key it was sent to."""
    at: datetime | None = None


class Comparison(Struct, kw_only=True):
    """`listed`: items that the banks listed; `booked`: receipts among them that were missing here before."""

    since: datetime
    until: datetime
    listed: int = 0
    booked: int = 0
    booked_cents: int = 0
    differences: list[StatementDifference] = []


class TooManyDifferences(Exception):
    """More than DIFFERENCES_MAX."""
