"""Check that an account's own address is complete: no boleto is issued otherwise (spec, MERCHANT_ADDRESS_REQUIRED)."""

from typing import Final

import msgspec

_REQUIRED_FIELDS: Final = ("street", "city", "state", "zip_code")


def is_complete(address: bytes | None) -> bool:
    """Whether the stored address is complete; `address` is None when the account has none."""
    fields = {} if address is None else msgspec.json.decode(address, type=dict[str, object])
    return all(isinstance(text := fields.get(field), str) and bool(text.strip()) for field in _REQUIRED_FIELDS)
