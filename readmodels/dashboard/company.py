"""An account's registration as its people and the platform's staff see it, with the items still missing."""

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.documents import check_digits_hold
from domain.merchants.address import is_complete
from domain.refund import is_pix_key

ADDRESS_PARTS = ("street", "number", "district", "city", "state", "zip_code")


class Company(Struct, frozen=True):
    """An account's registration. `address` is as stored, or None; `owners` counts the owners who have chosen a
    password. The rates are None where the platform's default applies."""

    account_id: UUID
    name: str
    document: str
    address: bytes | None
    kyc: str
    kyc_reason: str | None
    kyc_at: datetime | None
    pix_key: str
    rate_per_s: int | None
    rate_burst: int | None
    contact_phone: str
    contact_whatsapp: bool
    contact_email: str
    created_at: datetime
    owners: int

    @property
    def parts(self) -> dict[str, str]:
        """The address by part; a missing part is empty."""
        stored = {} if self.address is None else msgspec.json.decode(self.address, type=dict[str, object])
        return {part: str(stored.get(part) or "") for part in ADDRESS_PARTS}

    @property
    def missing(self) -> list[str]:
        """The items still missing of those that production needs: document, address, payout_key, owner."""
        holds_by_item = {
            "document": check_digits_hold(self.document),
            "address": is_complete(self.address),
            "payout_key": is_pix_key(self.pix_key),
            "owner": self.owners > 0,
        }
        return [name for name, holds in holds_by_item.items() if not holds]


find_company = sql.maybe("account.company", Company)
"""Takes `account_id, now`; `pix_key` is the payout key in force."""
