import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence

CLOCK_S_MAX = 300  # five minutes


def verify(body: bytes, headers: Mapping[str, str], secrets: Sequence[str], now: float | None = None) -> bool:
    """Whether a delivery is ours. `body`: the raw bytes, before any parsing. `secrets`: those you hold, one or two."""
    timestamp = headers.get("X-Service-Timestamp") or ""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return False
    if abs((time.time() if now is None else now) - int(timestamp)) > CLOCK_S_MAX:
        return False
    previous = headers.get("X-Service-Signature-Previous") or ""
    given = [headers.get("X-Service-Signature") or "", *previous.replace(" ", "").split(",")]
    for secret in secrets:
        digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        for each in given:
            if hmac.compare_digest(f"sha256={digest}".encode(), each.encode("utf-8", "replace")):
                return True
    return False


def receive(
    body: bytes, headers: Mapping[str, str], secrets: Sequence[str], remember: Callable[[str, bytes], object]
) -> int:
    """The HTTP status to answer with. `remember` stores an event under its event_id, unless it is there already."""
    if not verify(body, headers, secrets):
        return 401
    event = json.loads(body)
    remember(event["event_id"], body)  # INSERT INTO inbox ... ON CONFLICT (event_id) DO NOTHING
    return 204  # at once, for duplicates too; the work is done from the inbox
