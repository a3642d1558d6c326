"""What a merchant's programs do all day, for locust: create, look up, list, poll the feed, and see some charges paid.

`python -m bench locust` runs it; BENCH_MERCHANTS holds accounts and tokens, BENCH_PER_USER how often a user asks.
"""

import itertools
import json
import os
import random
import secrets
from collections import deque
from typing import Any

from locust import FastHttpUser, constant_throughput, task

_MERCHANTS: list[dict[str, str]] = json.loads(os.environ["BENCH_MERCHANTS"])
_PER_USER = float(os.environ.get("BENCH_PER_USER", "10"))
_numbers = itertools.count()
_RUN = secrets.token_hex(4)


class MerchantsProgram(FastHttpUser):
    """Of 100 requests 58 create, 25 look up, 10 list, 5 poll events, 2 simulate a payment."""

    # Locust keeps the pace, and does not ask less often because an answer was slow.
    wait_time = constant_throughput(_PER_USER)
    network_timeout = 30.0
    connection_timeout = 10.0

    def on_start(self) -> None:
        merchant = _MERCHANTS[next(_numbers) % len(_MERCHANTS)]
        self.as_merchant = {"Authorization": f"Bearer {merchant['token']}"}
        self.as_json = self.as_merchant | {"Content-Type": "application/json"}
        self.body = json.dumps({
            "account_id": merchant["account_id"], "external_id": f"order-{_RUN}", "amount": "149.90",
            "description": "Pedido da loja", "expires_in": 3600,
            "payer": {"name": "Maria da Silva", "document": "52998224725"},
        }).encode()  # fmt: skip
        self.made: deque[str] = deque(maxlen=500)
        self.sequence = 0

    @task(58)
    def create(self) -> None:
        headers = self.as_json | {"Idempotency-Key": f"{_RUN}-{next(_numbers)}"}
        with self._ask("POST", "/v1/charges/pix", "create", 201, data=self.body, headers=headers) as answer:
            if answer.status_code == 201:
                self.made.append(_charge_id(answer.content))

    @task(25)
    def look_up(self) -> None:
        if not self.made:
            return self.create()
        charge_id = random.choice(self.made)
        with self._ask("GET", f"/v1/charges/{charge_id}", "look up", 200, headers=self.as_merchant) as answer:
            if answer.status_code == 200 and _charge_id(answer.content) != charge_id:
                answer.failure("another charge")
        return None

    @task(10)
    def list_charges(self) -> None:
        with self._ask("GET", "/v1/charges?status=pending&limit=25", "list", 200, headers=self.as_merchant):
            pass

    @task(5)
    def poll_events(self) -> None:
        path = f"/v1/events?after_sequence={self.sequence}&limit=100"
        with self._ask("GET", path, "events", 200, headers=self.as_merchant) as answer:
            if answer.status_code != 200:
                return
            events = json.loads(answer.content)["data"]
            if events:
                numbers = [event["sequence"] for event in events]
                if numbers != list(range(self.sequence + 1, self.sequence + 1 + len(numbers))):
                    answer.failure(f"the feed has a gap after {self.sequence}")
                self.sequence = numbers[-1]

    @task(2)
    def pay(self) -> None:
        if not self.made:
            return self.create()
        path = f"/v1/charges/{self.made.pop()}/simulate-payment"
        with self._ask("POST", path, "simulate payment", 200, headers=self.as_merchant) as answer:
            if answer.status_code == 200 and b'"status":"paid"' not in answer.content:
                answer.failure("not paid")
        return None

    def _ask(self, method: str, path: str, name: str, expected: int, **more: Any) -> Any:
        return _Checked(self.client.request(method, path, name=name, catch_response=True, **more), expected)


class _Checked:
    """A response that is a failure unless its status is the one expected."""

    def __init__(self, asked: Any, expected: int) -> None:
        self._asked = asked
        self._expected = expected

    def __enter__(self) -> Any:
        answer = self._asked.__enter__()
        if answer.status_code != self._expected:
            answer.failure(f"{answer.status_code} {bytes(answer.content or b'')[:150]!r}")
        return answer

    def __exit__(self, *error: Any) -> Any:
        return self._asked.__exit__(*error)


def _charge_id(body: bytes) -> str:
    # A creation's answer begins with it; the QR image behind it is not worth decoding here.
    prefix = b'{"charge_id":"'
    return body[len(prefix) : len(prefix) + 36].decode() if body.startswith(prefix) else ""
