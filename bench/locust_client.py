"""The two routes of bench/merchant_client.py driven by locust: FastHttpUser, no pause between requests, in a process of
its own.

Load tests of this service use locust. Its cost is in both rates: that of the real route and that of the empty one.
"""

from gevent import monkey

monkey.patch_all()

import itertools  # noqa: E402
import secrets  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
import msgspec  # noqa: E402
from locust import FastHttpUser, constant, task  # noqa: E402
from locust.env import Environment  # noqa: E402

from bench.merchant_client import CONNECTIONS, ROUNDS, Task  # noqa: E402


def _user_class(load: Task, path: str) -> type[FastHttpUser]:
    numbers, run = itertools.count(), secrets.token_hex(4)
    ids = itertools.cycle(load.charge_ids)
    bearer = {"Authorization": f"Bearer {load.token}"}

    class RouteUser(FastHttpUser):
        host = f"http://127.0.0.1:{load.port}"
        wait_time = constant(0)

        @task
        def ask(self) -> None:
            if load.charge_ids:
                url = path or f"/v1/charges/{next(ids)}"
                with self.client.get(url, headers=bearer, name="asked", catch_response=True) as answer:
                    self._check_status(answer, 200)
                return
            name = f"{run}-{next(numbers):012}"
            headers = bearer | {"Idempotency-Key": name}
            body = {**load.body, "external_id": name}
            url = path or "/v1/charges/pix"
            with self.client.post(url, json=body, headers=headers, name="asked", catch_response=True) as answer:
                self._check_status(answer, 201)

        def _check_status(self, answer: Any, status: int) -> None:
            if answer.status_code != status:
                answer.failure(f"{answer.status_code} instead of {status}")

    return RouteUser


def _rate(load: Task, path: str) -> float:
    """Answers per second, measured once all users send requests."""
    environment = Environment(user_classes=[_user_class(load, path)])
    runner = environment.create_local_runner()
    runner.start(CONNECTIONS, spawn_rate=CONNECTIONS)  # all within a second, at a rate that locust supports
    gevent.sleep(1.5)
    before, failed = environment.stats.total.num_requests, environment.stats.total.num_failures
    gevent.sleep(load.slice_s)
    count = environment.stats.total.num_requests - before
    assert environment.stats.total.num_failures == failed == 0, environment.stats.errors
    runner.quit()
    runner.greenlet.join(5)
    return count / load.slice_s


if __name__ == "__main__":
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    pairs = [(_rate(load, ""), _rate(load, "/bench/empty")) for _ in range(ROUNDS + 1)]
    sys.stdout.buffer.write(msgspec.json.encode(pairs[1:]))  # the first round warms up
