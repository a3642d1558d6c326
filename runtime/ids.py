"""Identifiers: time-ordered UUIDs (version 7) and random tokens."""

import os
import secrets
import time
from uuid import UUID


def new_id() -> UUID:
    """A UUIDv7: 48 bits of milliseconds, then 74 random bits. New rows meet at the right edge of an index."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF000 << 64) | (0x7000 << 64)
    value = value & ~(0xC000 << 48) | (0x8000 << 48)
    return UUID(int=value)


def new_token() -> str:
    """128 random bits as 22 URL-safe characters: nothing about the owner or the time can be read from it."""
    return secrets.token_urlsafe(16)
