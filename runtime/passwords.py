"""Hashes of passwords: argon2id with OWASP's minimum parameters (19 MiB, two passes, one lane)."""

from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

_PASSES, _MEMORY_KIB = 2, 19 * 1024
_HASHER: Final = PasswordHasher(time_cost=_PASSES, memory_cost=_MEMORY_KIB, parallelism=1)
# Verified for unknown e-mails, so that the time does not reveal whether a person exists. It is no password's hash: the
# time goes into hashing the password that is compared with it.
_NOBODY: Final = f"$argon2id$v=19$m={_MEMORY_KIB},t={_PASSES},p=1${'A' * 22}${'A' * 43}"


def hash_password(password: str) -> str:
    """The hash, as text with all parameters and its own salt. Takes some 20 ms: call it from a thread."""
    return _HASHER.hash(password)


def matches_hash(password: str, stored_hash: str | None) -> bool:
    """Whether `stored_hash` is this password's; None gives False, in the same time. Call it from a thread."""
    try:
        return _HASHER.verify(_NOBODY if stored_hash is None else stored_hash, password) and stored_hash is not None
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(stored_hash: str) -> bool:
    """Whether a new hash would use other parameters."""
    return _HASHER.check_needs_rehash(stored_hash)
