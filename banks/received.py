"""Received PIX, as a bank reports them."""

from datetime import datetime
from typing import Final

from msgspec import Struct

BOLETO_HINT: Final = "boleto:"
"""The prefix of `about` in a hint about a boleto; a hint without it is about a PIX charge."""


class PixReturn(Struct, frozen=True, kw_only=True):
    """A devolucao: money of a received PIX that was returned to its payer, requested by us or begun by the bank
    (MED)."""

    id: str
    """Chosen by whichever side began it; in our devolucoes it is the refund's id in hex."""
    return_id: str | None
    """The payment system's id (rtrId)."""
    amount_cents: int


class ReceivedPix(Struct, frozen=True, kw_only=True):
    """A PIX that arrived. The document has no punctuation and is well formed, or None if the bank does not give it."""

    end_to_end_id: str
    txid: str | None
    """None if it was paid directly to the key, without a charge."""
    amount_cents: int
    paid_at: datetime
    payer_name: str | None = None
    payer_document: str | None = None
    interest_cents: int = 0
    fine_cents: int = 0
    discount_cents: int = 0
    """Parts of the amount, as far as the bank tells them, for a charge with a due date."""
    boleto_number: str | None = None
    """The boleto whose PIX side it paid. The money belongs to that boleto, which the bank lists as paid as well."""
    returned: tuple[PixReturn, ...] = ()
    """Its completed devolucoes."""
