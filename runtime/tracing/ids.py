"""Ids of a trace, made from the id of what began it: nothing of a trace has to be stored or sent between processes.

The trace of a request is the first 16 bytes of the SHA-256 of its request id, its first span the next 8:

    printf %s req_2bXkq3cVQyq0eQfZb1m5Zw | sha256sum | cut -c1-32
"""

from hashlib import sha256
from typing import Final, NamedTuple

_SAMPLE_SPACE: Final = 1 << 64


class TraceIds(NamedTuple):
    trace_id: int
    root_id: int

    @property
    def trace(self) -> str:
        """The trace id as W3C Trace Context writes it."""
        return f"{self.trace_id:032x}"


def sampled(cause: str, share: float) -> TraceIds | None:
    """The trace of a request id, or of the order or event that no request caused; None when it is not recorded. That is
    decided as by the SDK's TraceIdRatioBased: by the lower half of the id."""
    digest = sha256(cause.encode()).digest()
    if int.from_bytes(digest[8:16]) >= share * _SAMPLE_SPACE:
        return None
    return TraceIds(int.from_bytes(digest[:16]), int.from_bytes(digest[16:24]))
