"""Money on its way back: a PIX returned the way it came (devolucao), or sent to a key. Methods are in
banks/protocol.py.

Each is known by an id of ours, chosen and written down before the bank is asked, so that asking twice sends once.
"""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

# Codes of `Refused` that are ours and not the bank's.
PIX_UNKNOWN: Final = "PIX_UNKNOWN"
"""The bank does not know the PIX that is to go back; it may not know it yet."""
NO_TRANSFERS: Final = "NO_TRANSFERS"
"""The bank sends no PIX for us."""
NO_LIST: Final = "NO_LIST"
"""The bank does not list what it sent."""


class Return(Struct, frozen=True, kw_only=True):
    """A received PIX, or part of it, to be given back to the account it came from."""

    id: str
    """Up to 35 letters and digits."""
    end_to_end_id: str
    amount_cents: int
    description: str | None = None
    """Any text; each adapter folds it to what its bank takes."""


class Transfer(Struct, frozen=True, kw_only=True):
    """A PIX to be sent to a key, whose owner must have this document (bare digits)."""

    id: str
    pix_key: str
    document: str
    amount_cents: int
    description: str | None = None


class Sent(Struct, frozen=True, kw_only=True):
    """Money sent, as the bank has it. `processing` may last for days; the other two are for good."""

    status: Literal["processing", "done", "not_done"]
    amount_cents: int
    reference: str | None = None
    """What the payment system knows it by: a devolucao's rtrId, a transfer's endToEndId."""
    detail: str | None = None
    """Why it was not done, in the bank's words."""


class SentTransfer(Struct, frozen=True, kw_only=True):
    """A PIX sent to a key, as the bank lists it. `status` as in `Sent`; `document` is bare, of the key's owner."""

    id: str
    """Ours, of withdrawals and refunds; else whoever sent it chose it."""
    status: Literal["processing", "done", "not_done"]
    amount_cents: int
    asked_at: datetime
    reference: str | None = None
    pix_key: str | None = None
    document: str | None = None
