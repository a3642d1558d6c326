"""Secrets and personal data at rest: sealed with AES-256-GCM under keys derived from SECRET_KEY.

SECRET_KEY holds one key or several, the first of which seals. Sealed bytes name their key, so that an older key still
opens what it sealed until `quita rekey` has sealed it anew. They are bound to their kind and to the row they belong to,
so that they cannot be opened as another kind or in another row's place.
"""

import hmac
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Struct

KEYS_MAX: Final = 16
_ID_MAX: Final = 255
_UNNAMED_KEY_ID: Final = 1
"""The id of a key that is given without one."""
_SALT_BYTES: Final = 2
_NONCE_BYTES: Final = 12
_HEAD_BYTES: Final = 1 + _SALT_BYTES + _NONCE_BYTES
_SEALS_PER_SALT_MAX: Final = 1_000
"""Consecutive messages sealed under one salt: deriving its key takes as long as sealing a message."""
OPENED_AT_ONCE: Final = 100
"""Rows opened before other work of the process has its turn: opening and reading these takes some 2 ms."""
_CIPHERS_MAX: Final = 1_024
"""Ciphers kept, of the 65,536 that each key has: rows sealed under one salt are often opened together."""


# The kinds of sealed content, each with the id of the row that it belongs to.
CHARGE_PAYER: Final = "payer"
"""Of a charge: charge_id."""
SCHEDULE_PAYER: Final = "payer of a schedule"
"""schedule_id."""
PAYMENT_PAYER: Final = "payer of a payment"
"""payment_id."""
SUSPENDED_PAYER: Final = "payer of money in suspense"
"""The bank's reference of the money."""
DESTINATION: Final = "destination of a refund"
"""refund_id."""
WEBHOOK_SECRET: Final = "secret of webhooks"  # noqa: S105
"""account_id."""
TOTP: Final = "second factor"
"""The person's e-mail."""
MAIL_TO: Final = "address of a mail"
"""mail_id."""
MAIL_NOTE: Final = "note of a mail"
"""mail_id."""
CAUGHT_MAIL: Final = "caught mail"
"""mail_id."""
SIMULATED_COB_PAYER: Final = "payer of a cob at the simulated bank"
"""txid."""
SIMULATED_BOLETO_PAYER: Final = "payer of a boleto at the simulated bank"
"""The boleto's number."""
SIMULATED_SIGNING_KEY: Final = "signing key of the simulated bank"
"""kid."""
CELL_ADDRESSES: Final = "addresses of a cell"
"""Its number."""
UNREADABLE: Final = "unreadable item"
"""Bank, method and what the item is known by, with a space between."""

_log = structlog.get_logger()


class SecretKeys(Struct, frozen=True):
    """The keys by their ids, from 1 to 255; the first is current, the last the oldest."""

    keys: tuple[tuple[int, bytes], ...]

    @property
    def current(self) -> int:
        return self.keys[0][0]


def read_keys(text: str) -> SecretKeys:
    """Reads `64 hex digits`, or `id:hex,id:hex`; ValueError when the text is neither."""
    keys = []
    for part in text.split(","):
        name, _, digits = part.strip().rpartition(":")
        id = int(name) if name.isascii() and name.isdigit() and len(name) < 4 else 0
        if name and not 1 <= id <= _ID_MAX:
            raise ValueError(f"SECRET_KEY: the id of a key is a number from 1 to {_ID_MAX}")
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            key = b""
        if len(key) != 32:
            raise ValueError("SECRET_KEY must be 64 hex digits, or several keys as id:hex,id:hex")
        keys.append((id or _UNNAMED_KEY_ID, key))
    if len({id for id, _ in keys}) < len(keys) or len(keys) > KEYS_MAX:
        raise ValueError(f"SECRET_KEY has at most {KEYS_MAX} keys, each with an id of its own")
    return SecretKeys(tuple(keys))


class Seal:
    """Seals and opens. The sealed bytes are key id, salt, nonce and AES-GCM's output, in this order."""

    def __init__(self, secret: SecretKeys | bytes) -> None:
        """A key that is given alone has the id that a SECRET_KEY without ids has."""
        self._secret = secret if isinstance(secret, SecretKeys) else SecretKeys(((_UNNAMED_KEY_ID, secret),))
        self._data_keys = {id: _derive_key(root, "data") for id, root in self._secret.keys}
        # New fingerprints are compared with years-old ones, and are in the journal: the oldest key makes them.
        self._blind_key = _derive_key(self._secret.keys[-1][1], "index")
        self._salted_cipher: tuple[bytes, AESGCM] | None = None
        self._seals_left = 0
        self._cipher = lru_cache(_CIPHERS_MAX)(self._derive_cipher)
        self._unreadable: set[str] = set()

    @property
    def current(self) -> int:
        """The id of the key that seals."""
        return self._secret.current

    def key(self, purpose: str) -> bytes:
        """The 32-byte key of a purpose: the same for the same current key, unrelated to every other purpose's."""
        return _derive_key(self._secret.keys[0][1], purpose)

    def fingerprints(self) -> dict[int, str]:
        """One for each key, by key id, oldest last. They tell whether another SECRET_KEY opens what this one has
        sealed, and finds what it has fingerprinted. Nothing of a key can be told from them."""
        return {id: _derive_key(root, "fingerprint").hex()[:32] for id, root in self._secret.keys}

    def keys(self, purpose: str) -> Sequence[bytes]:
        """The keys of a purpose, for values that are handed out and come back: sign with the first, accept any."""
        return [_derive_key(root, purpose) for _, root in self._secret.keys]

    def seal(self, plain: bytes, what: str, row: object) -> bytes:
        """Seal `plain` as `what` it is, for the id of the `row` it is kept in; opening it takes the same two."""
        if self._salted_cipher is None or self._seals_left <= 0:
            salted = bytes((self.current,)) + os.urandom(_SALT_BYTES)
            self._salted_cipher, self._seals_left = (salted, self._cipher(salted)), _SEALS_PER_SALT_MAX
        self._seals_left -= 1
        salted, cipher = self._salted_cipher
        nonce = os.urandom(_NONCE_BYTES)
        return salted + nonce + cipher.encrypt(nonce, plain, _associated_data(what, row))

    def open(self, sealed: bytes, what: str, row: object) -> bytes:
        """Raises cryptography.exceptions.InvalidTag when the bytes were not sealed here as this, were altered, or when
        their key is no longer among ours."""
        head = sealed[:_HEAD_BYTES]
        if len(head) < _HEAD_BYTES or head[0] not in self._data_keys:
            raise InvalidTag
        return self._cipher(head[: 1 + _SALT_BYTES]).decrypt(
            head[-_NONCE_BYTES:], sealed[_HEAD_BYTES:], _associated_data(what, row)
        )

    def opened(self, sealed: bytes, what: str, row: object) -> bytes | None:
        """As `open`, but None when no key opens the bytes any more: a key was lost, and the data beside are shown all
        the same. Logged once for each `what`, not for each row of each page."""
        try:
            return self.open(sealed, what, row)
        except InvalidTag:
            if what not in self._unreadable:
                self._unreadable.add(what)
                _log.error("sealed_not_readable", what=what, row=str(row))
            return None

    def blind(self, value: str) -> str:
        """A keyed fingerprint (32 hex digits) to find equal values by without keeping them readable."""
        return hmac.digest(self._blind_key, value.encode(), "sha256").hex()[:32]

    def _derive_cipher(self, salted: bytes) -> AESGCM:
        # One of 65,536 keys, by the salt: random nonces are safe for 2^32 messages of one key, which at a thousand a
        # second is fifty days. The salt that is kept for a while is random too, so each key has its share.
        return AESGCM(hmac.digest(self._data_keys[salted[0]], salted[1:], "sha256"))


def _derive_key(root: bytes, purpose: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode()).derive(root)


def _associated_data(what: str, row: object) -> bytes:
    return f"{what}\0{row}".encode()
