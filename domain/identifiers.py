"""Ids in URLs: a UUID in its canonical spelling only."""

import re
from typing import Final
from uuid import UUID

UUID_REGEX: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID = re.compile(UUID_REGEX)


def parse_id(text: str) -> UUID | None:
    """Returns the id, or None for any other text, also for another spelling of a UUID."""
    return UUID(text) if _UUID.fullmatch(text) else None
