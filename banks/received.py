"""PIX that arrived, as a bank tells of it."""

from datetime import datetime

from msgspec import Struct


class ReceivedPix(Struct, frozen=True, kw_only=True):
    """Money that arrived. The document is bare, well formed, and None when the bank does not tell it."""

    end_to_end_id: str
    txid: str
    amount_cents: int
    paid_at: datetime
    payer_name: str | None = None
    payer_document: str | None = None
