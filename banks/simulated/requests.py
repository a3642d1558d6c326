"""Requests to the simulated bank's control API, and their refusal."""

from typing import Any

import msgspec
from aiohttp import web

from domain.money import parse_amount


class Wrong(Exception):
    """The control API cannot do this; answered as {"message": ...}."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    def answer(self) -> web.Response:
        return web.json_response({"message": self.message}, status=self.status)


async def asked_body(request: web.Request) -> dict[str, Any]:
    try:
        return msgspec.json.decode(await request.read(), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Wrong(400, "the body is not a JSON object") from None


def asked_times(body: dict[str, Any], *, times_max: int) -> int:
    times = body.get("times", 1)
    if type(times) is not int or not 1 <= times <= times_max:
        raise Wrong(400, f"times must be a whole number from 1 to {times_max}")
    return times


def asked_amount(body: dict[str, Any], *, cents_max: int) -> int | None:
    """Cents, None when no amount is given."""
    if (amount := body.get("amount")) is None:
        return None
    try:
        return parse_amount(amount, cents_max=cents_max)
    except ValueError as error:
        raise Wrong(400, f"amount: {error}") from None
