"""Parses requests to the simulated bank's control API and refuses wrong ones."""

from typing import Any, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from domain.money import parse_amount

TIMES_MAX = 100

Rules = TypeVar("Rules", bound=Struct)


class Wrong(web.HTTPException):
    """A refusal by the control API; aiohttp answers with {"message": ...}."""

    def __init__(self, status: int, message: str) -> None:
        self.status_code = status
        super().__init__(text=msgspec.json.encode({"message": message}).decode(), content_type="application/json")


async def asked_body(request: web.Request) -> dict[str, Any]:
    try:
        return msgspec.json.decode(await request.read(), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Wrong(400, "the body is not a JSON object") from None


async def asked_rules(request: web.Request, rules: Rules) -> Rules:
    """Return the rules with the changes in the body."""
    asked = await asked_body(request)
    try:
        return msgspec.convert({**msgspec.structs.asdict(rules), **asked}, type(rules))
    except msgspec.ValidationError as error:
        raise Wrong(400, str(error)) from None


def asked_times(body: dict[str, Any]) -> int:
    times = body.get("times", 1)
    if type(times) is not int or not 1 <= times <= TIMES_MAX:
        raise Wrong(400, f"times must be a whole number from 1 to {TIMES_MAX}")
    return times


def asked_amount(body: dict[str, Any], *, cents_max: int) -> int | None:
    """Return the amount in cents; None if none is given."""
    if (amount := body.get("amount")) is None:
        return None
    try:
        return parse_amount(amount, cents_max=cents_max)
    except ValueError as error:
        raise Wrong(400, f"amount: {error}") from None
