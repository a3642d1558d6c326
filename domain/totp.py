"""Time-based one-time codes (TOTP, RFC 6238 over RFC 4226): six digits, SHA-1, steps of 30 seconds, as every
authenticator application has them."""

import hmac
from base64 import b32encode
from datetime import datetime
from urllib.parse import quote, urlencode

STEP_S = 30
DIGITS = 6
SECRET_BYTES = 20
"""As long as the hash: RFC 4226 section 4, R6."""
DRIFT_STEPS = 1
"""A device's clock may be one step off either way (RFC 6238 section 5.2)."""


def step_at(now: datetime) -> int:
    return int(now.timestamp()) // STEP_S


def code_at(secret: bytes, step: int) -> str:
    mac = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    at = mac[-1] & 15
    value = int.from_bytes(mac[at : at + 4], "big") & 0x7FFF_FFFF
    return f"{value % 10**DIGITS:0{DIGITS}}"


def step_of(secret: bytes, code: str, *, now: datetime, after: int) -> int | None:
    """Returns the time step of a code, which must be later than `after` (the step of the last accepted code) and at
    most DRIFT_STEPS from now; None for a wrong or used code, or any other text."""
    current = step_at(now)
    matched = None
    for step in range(current - DRIFT_STEPS, current + DRIFT_STEPS + 1):
        # The code is compared with every step, so that the duration reveals nothing.
        if hmac.compare_digest(code_at(secret, step).encode(), code.encode()) and step > after:
            matched = step
    return matched


def in_text(secret: bytes) -> str:
    """Returns the secret for people who type it: Base32 in groups of four."""
    text = b32encode(secret).decode().rstrip("=")
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def otpauth(secret: bytes, *, issuer: str, account: str) -> str:
    """Returns the text of the QR code for authenticator applications (otpauth://totp/..., ASCII)."""
    label = f"{quote(issuer)}:{quote(account)}"
    text = b32encode(secret).decode().rstrip("=")
    return f"otpauth://totp/{label}?{urlencode({'secret': text, 'issuer': issuer}, quote_via=quote)}"
