"""Secrets and personal data at rest: sealed with AES-256-GCM under keys derived from SECRET_KEY.

Each purpose has a key of its own (HKDF), so that what is sealed for one cannot be opened as another.
"""

import hmac
import os
from hashlib import sha256

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE = 12


class Seal:
    def __init__(self, secret_key: bytes) -> None:
        self._root = secret_key
        self._data = AESGCM(self.key("data"))
        self._index = self.key("index")

    def key(self, purpose: str) -> bytes:
        """The 32-byte key of a purpose: the same for the same SECRET_KEY, unrelated to every other."""
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode()).derive(self._root)

    def seal(self, plain: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._data.encrypt(nonce, plain, None)

    def open(self, sealed: bytes) -> bytes:
        """Raises cryptography.exceptions.InvalidTag when it was not sealed here or was altered."""
        return self._data.decrypt(sealed[:_NONCE], sealed[_NONCE:], None)

    def blind(self, value: str) -> str:
        """A keyed fingerprint (32 hex digits) to find equal values by without keeping them readable."""
        return hmac.new(self._index, value.encode(), sha256).hexdigest()[:32]
