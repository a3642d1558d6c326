"""Outgoing money: a received PIX returned to its payer (devolucao), or a PIX sent to a key. The methods are in
banks/protocol.py.

Each has an id of ours, chosen and committed before the bank is asked, so that a repeated request sends the money once.
"""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

# Codes of `Rejected` that are ours and not the bank's.
PIX_UNKNOWN: Final = "PIX_UNKNOWN"
"""The bank does not know the PIX to be returned; it may not know it yet."""
NO_TRANSFERS: Final = "NO_TRANSFERS"
"""The bank sends no PIX for us."""
NO_LIST: Final = "NO_LIST"
"""The bank has no list of the PIX it sent."""


class Return(Struct, frozen=True, kw_only=True):
    """A received PIX, or part of it, to be returned to the account it came from."""

    id: str
    """Up to 35 letters and digits."""
    end_to_end_id: str
    amount_cents: int
    description: str | None = None
    """Any text; each adapter folds it to the characters its bank accepts."""


class Transfer(Struct, frozen=True, kw_only=True):
    """A PIX to be sent to a key whose owner must have this document (digits without punctuation)."""

    id: str
    pix_key: str
    document: str
    amount_cents: int
    description: str | None = None


class Sent(Struct, frozen=True, kw_only=True):
    """The bank's state of sent money. `processing` may last for days; `done` and `not_done` are final."""

    status: Literal["processing", "done", "not_done"]
    amount_cents: int
    reference: str | None = None
    """The payment system's id: a devolucao's rtrId, a transfer's endToEndId."""
    detail: str | None = None
    """The bank's reason if it was not done."""


class SentTransfer(Struct, frozen=True, kw_only=True):
    """A PIX sent to a key, as the bank lists it. `status` as in `Sent`."""

    id: str
    """Our id for withdrawals and refunds; otherwise chosen by another sender."""
    status: Literal["processing", "done", "not_done"]
    amount_cents: int
    asked_at: datetime
    reference: str | None = None
    pix_key: str | None = None
