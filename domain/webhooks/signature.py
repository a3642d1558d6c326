"""The signatures and headers of a webhook request (contract section 9).

Both schemes sign the raw bytes of the body. Our key is the text of the secret as shown; the key of Standard Webhooks is
the part after `whsec_`, base64-decoded. Receivers often mix up the two.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from uuid import UUID

SECRET_PREFIX = "whsec_"  # noqa: S105  the mark in front of a secret, not one
USER_AGENT = "Quita-Webhooks/1.0"


def secret_text(chance: bytes) -> str:
    """Returns the text of a secret made of 32 random bytes."""
    assert len(chance) == 32
    return SECRET_PREFIX + b64encode(chance).decode()


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Returns the HMAC-SHA256 over `<timestamp>.<body>`, in lowercase hex."""
    return hmac.digest(secret.encode(), b"%d.%b" % (timestamp, body), "sha256").hex()


def standard_signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Returns `v1,<base64>` over `<id>.<timestamp>.<body>`, as Standard Webhooks defines it."""
    key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    signed = hmac.digest(key, b"%b.%d.%b" % (event_id.encode(), timestamp, body), "sha256")
    return "v1," + b64encode(signed).decode()


def delivery_headers(
    *,
    event: str,
    event_id: UUID,
    delivery_id: UUID,
    attempt: int,
    timestamp: int,
    body: bytes,
    secret: str,
    old_secrets: Sequence[str] = (),
) -> dict[str, str]:
    """Returns the headers of one attempt. `timestamp`, in Unix seconds, is the attempt's, not the event's, because
    receivers refuse timestamps older than five minutes. `old_secrets`, newest first, sign too after rotations."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "X-Service-Event": event,
        "X-Service-Timestamp": str(timestamp),
        "X-Service-Signature": "sha256=" + sign(secret, timestamp, body),
        "X-Service-Delivery-Id": str(delivery_id),
        "X-Service-Attempt": str(attempt),
        "webhook-id": str(event_id),
        "webhook-timestamp": str(timestamp),
        "webhook-signature": standard_signature(secret, str(event_id), timestamp, body),
    }
    if old_secrets:
        # In a header of their own, because a receiver may compare the whole of X-Service-Signature.
        headers["X-Service-Signature-Previous"] = ", ".join(
            "sha256=" + sign(each, timestamp, body) for each in old_secrets
        )
        for each in old_secrets:
            headers["webhook-signature"] += " " + standard_signature(each, str(event_id), timestamp, body)
    return headers
