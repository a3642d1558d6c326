import hashlib
import hmac
import time

CLOCK_S_MAX = 300  # five minutes


def genuine(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """Whether a delivery is ours. `body`: the raw bytes, before any JSON parsing."""
    timestamp = headers.get("X-Service-Timestamp", "")
    signature = headers.get("X-Service-Signature", "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12 and signature.isascii()):
        return False
    if abs(time.time() - int(timestamp)) > CLOCK_S_MAX:
        return False
    signed = timestamp.encode() + b"." + body
    expected = "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, signature)
