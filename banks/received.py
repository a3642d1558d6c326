"""PIX that arrived, as a bank tells of it."""

from datetime import datetime
from typing import Final

from msgspec import Struct

BOLETO_HINT: Final = "boleto:"
"""What a hint about a boleto is known by begins with; any other is about a PIX charge."""


class ReceivedPix(Struct, frozen=True, kw_only=True):
    """Money that arrived. The document is bare, well formed, and None when the bank does not tell it."""

    end_to_end_id: str
    txid: str
    amount_cents: int
    paid_at: datetime
    payer_name: str | None = None
    payer_document: str | None = None
