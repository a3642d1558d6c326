"""PIX that arrived, as a bank tells of it."""

from datetime import datetime
from typing import Final

from msgspec import Struct

BOLETO_HINT: Final = "boleto:"
"""What a hint about a boleto is known by begins with; any other is about a PIX charge."""


class PixReturn(Struct, frozen=True, kw_only=True):
    """Money of a received PIX that is back with its payer (devolucao): asked for by us, or begun by the bank (MED)."""

    id: str
    """Chosen by whoever began it: of ours, the refund's id in hex."""
    return_id: str | None
    """The payment system's (rtrId)."""
    amount_cents: int


class ReceivedPix(Struct, frozen=True, kw_only=True):
    """Money that arrived. The document is bare, well formed, and None when the bank does not tell it."""

    end_to_end_id: str
    txid: str | None
    """None when it was paid to the key by hand, for no charge."""
    amount_cents: int
    paid_at: datetime
    payer_name: str | None = None
    payer_document: str | None = None
    interest_cents: int = 0
    fine_cents: int = 0
    discount_cents: int = 0
    """Parts of the amount, as far as the bank tells them: of a charge with a due date."""
    boleto_number: str | None = None
    """Of the boleto whose PIX side it paid: its money is that boleto's, which the bank lists as well."""
    returned: tuple[PixReturn, ...] = ()
    """What of it has gone back."""
