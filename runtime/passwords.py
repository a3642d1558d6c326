"""Passwords of people, as they are kept: argon2id, with OWASP's least parameters (19 MiB, two passes, one lane).

What was kept before, with scrypt, is still understood, and replaced when its owner signs in.
"""

import hashlib
import hmac
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
_SCRYPT_MEMORY_MAX = 64 * 1024 * 1024
# Of no password anybody could type: whoever names an unknown person waits as long as everybody else.
_NOBODY: Final = _HASHER.hash(bytes(32))


def hash_password(password: str) -> str:
    """All parameters and a salt of its own are in the text. Some 20 ms of work: call it from a thread."""
    return _HASHER.hash(password)


def is_right(password: str, kept: str | None) -> bool:
    """Is this the password `kept` was made of? None is nobody's, and takes as long. Call it from a thread."""
    if kept is not None and kept.startswith("scrypt$"):
        return _scrypt_is_right(password, kept)
    try:
        return _HASHER.verify(_NOBODY if kept is None else kept, password) and kept is not None
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(kept: str) -> bool:
    """Whether it would be kept otherwise today."""
    return kept.startswith("scrypt$") or _HASHER.check_needs_rehash(kept)


def _scrypt_is_right(password: str, kept: str) -> bool:
    _, log_n, r, p, salt, digest = kept.split("$")
    wanted = bytes.fromhex(digest)
    found = hashlib.scrypt(
        password.encode(), salt=bytes.fromhex(salt), n=2 ** int(log_n), r=int(r), p=int(p),
        maxmem=_SCRYPT_MEMORY_MAX, dklen=len(wanted),
    )  # fmt: skip
    return hmac.compare_digest(found, wanted)
