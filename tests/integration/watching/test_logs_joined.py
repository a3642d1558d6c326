"""The log lines of a request, of the API and of workers, are found by its request_id, which the merchant has too."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.support.receiving import receiving
from tests.support.system import System, until


def lines(system: System, process: str, request_id: str) -> list[dict[str, Any]]:
    text = Path(system.home / "logs" / f"{process}.log").read_text(encoding="utf-8", errors="replace")
    return [json.loads(line) for line in text.splitlines() if f'"{request_id}"' in line and line.endswith("}")]


def ask(system: System, merchant: dict[str, Any], mode: str, path: str, body: Any = None) -> httpx.Response:
    token = httpx.post(
        f"{system.base_url}/v1/oauth/token",
        data={"grant_type": "client_credentials", **merchant[mode]},
        timeout=30,
    ).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
    answer = httpx.post(system.base_url + path, json=body, headers=headers, timeout=60)
    assert answer.status_code < 300, answer.text
    return answer


def test_the_log_lines_of_a_request_at_api_bank_and_webhook_carry_its_request_id(system: System) -> None:
    merchant = system.create_merchant()
    body = {"account_id": merchant["account_id"], "amount": "7.30"}
    with receiving() as url:
        system.json("webhook", "set", merchant["account_id"], url)
        created = ask(system, merchant, "production", "/v1/charges/pix", body)
        request_id = created.headers["x-request-id"]
        until(lambda: lines(system, "api", request_id), what="the API's line")
        until(lambda: lines(system, "worker", request_id), what="the worker's line about the bank")
        (asked,) = lines(system, "worker", request_id)
        assert (asked["event"], asked["kind"]) == ("bank_order_asked", "cob_register")

        charge = ask(system, merchant, "production", f"/v1/charges/{created.json()['charge_id']}/cancel")
        cancelled = charge.headers["x-request-id"]

        def told() -> set[str]:
            return {line["event"] for line in lines(system, "worker", cancelled)}

        until(lambda: told() == {"bank_order_asked", "webhook_sent"}, what="order and delivery of the cancellation")
        (sent,) = [line for line in lines(system, "worker", cancelled) if line["event"] == "webhook_sent"]
        assert (sent["outcome"], sent["status"], sent["test"]) == ("delivered", 200, False)
        order = ask(system, merchant, "test", "/v1/charges/pix", body)
        paid = ask(system, merchant, "test", f"/v1/charges/{order.json()['charge_id']}/simulate-payment")
        until(
            lambda: any(
                line["event"] == "webhook_sent" for line in lines(system, "worker", paid.headers["x-request-id"])
            ),
            what="the delivery of a payment",
        )
