"""The requests that benches send: callables that give the next request as bytes."""

import itertools
import json
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from bench.client import Check, http
from bench.environment import Merchant


def charge_body(merchant: Merchant) -> dict[str, Any]:
    """The body of a charge with all fields that merchants use; twelve digits of `external_id` are to be filled in."""
    return {
        "account_id": merchant.account_id,
        "external_id": "order-%012d",
        "amount": "149.90",
        "description": "Order of Padaria Aurora",
        "expires_in": 3600,
        "payer": {"name": "Maria da Silva", "document": "52998224725", "email": "maria@example.com"},
    }


def creations(merchant: Merchant, path: str) -> Callable[[], bytes]:
    """Gives POST requests for a charge, each with its own key and reference."""
    body = charge_body(merchant)
    text = json.dumps(body).encode()
    # Content-Length must be that of the filled-in body: twelve digits replace the five characters of `%012d`.
    filled_body = text.replace(b"%012d", b"0" * 12)
    run_id = secrets.token_hex(4)
    filled_request = http("POST", path, token=merchant.token, key=f"{run_id}-%012d", body=filled_body)
    template = filled_request[: -len(filled_body)] + text
    numbers = itertools.count()

    def next_request() -> bytes:
        number = next(numbers)
        return template % (number, number)

    return next_request


def lookups(merchant: Merchant, charge_ids: Sequence[str]) -> tuple[Callable[[], bytes], Check]:
    """Gives GET requests for these charges in turn, and the check that an answer is 200 with a charge."""
    requests = itertools.cycle([http("GET", f"/v1/charges/{each}", token=merchant.token) for each in charge_ids])

    def check(data: bytes, body_at: int) -> bool:
        return data.startswith(b"HTTP/1.1 200 ") and data.startswith(b'{"charge_id":"', body_at)

    return lambda: next(requests), check
