"""Ids as they stand in addresses: a UUID in its one canonical spelling."""

import re
from typing import Final
from uuid import UUID

UUID_REGEX: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID = re.compile(UUID_REGEX)


def parse_id(text: str) -> UUID | None:
    """None for any other text: another spelling of an id names nothing."""
    return UUID(text) if _UUID.fullmatch(text) else None
