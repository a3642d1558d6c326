"""A cursor is valid only for the list, account, mode and filters it was made for; any other text is CURSOR_INVALID
(contract section 10)."""

import base64
import string
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from domain.errors import Refused
from readmodels.cursor import Cursors
from tests.support.in_process import Api, bearer, open_api

ALPHABET = string.ascii_letters + string.digits + "-_"
COUNT = 7

quick = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)


class Walk:
    """An account with COUNT rows in each list, and a cursor into each."""

    def __init__(self, api: Api, token: str, other_mode: str, stranger: str) -> None:
        self.api = api
        self.token = token
        self.strangers = (other_mode, stranger)
        self.lists = ["/v1/charges", "/v1/payments", "/v1/events", f"/v1/accounts/{api.first.account_id}/ledger"]
        self.cursors: dict[str, str] = {}

    async def ask(self, path: str, query: str, token: str | None = None) -> Any:
        return await self.api.ask("GET", path, query=query.encode(), headers=bearer(token or self.token))


@pytest.fixture(scope="module")
async def walk(servers: Any) -> AsyncIterator[Walk]:
    async with open_api(servers.database_url, servers.redis_url) as api:
        token = await api.token()
        for number in range(COUNT):
            made = await api.create(amount=f"{number + 1}.00", external_id=f"n{number}")
            await api.post(f"/v1/charges/{made['charge_id']}/simulate-payment", None, token=token)
        made_walk = Walk(api, token, await api.token(mode="production"), await api.token(api.second))
        for path in made_walk.lists:
            reply = await made_walk.ask(path, "limit=2")
            made_walk.cursors[path] = reply.json()["next_cursor"]
            assert made_walk.cursors[path]
        yield made_walk


def percent_encoded(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("number", range(4))
async def test_pages_of_any_size_show_every_row_once_and_in_order(walk: Walk, number: int, order: str) -> None:
    path = walk.lists[number]
    whole = (await walk.ask(path, f"limit=100&order={order}")).json()
    assert len(whole["data"]) == COUNT
    assert whole["next_cursor"] is None
    for step in range(1, COUNT + 2):
        rows: list[Any] = []
        query = f"limit={step}&order={order}"
        for _ in range(COUNT + 1):
            page = (await walk.ask(path, query)).json()
            rows += page["data"]
            assert 0 < len(page["data"]) <= step
            if page["next_cursor"] is None:
                break
            query = f"limit={step}&order={order}&cursor={page['next_cursor']}"
        assert rows == whole["data"]


async def test_the_limit_may_change_from_page_to_page(walk: Walk) -> None:
    for path in walk.lists:
        whole = (await walk.ask(path, "limit=100")).json()["data"]
        rest = (await walk.ask(path, f"limit=100&cursor={walk.cursors[path]}")).json()
        assert rest["data"] == whole[2:]


@quick
@given(text=st.text(max_size=80) | st.text(ALPHABET, max_size=120) | st.binary(max_size=90).map(
    lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("=")
))  # fmt: skip
@example(text="")
@example(text="null")
@example(text="=" * 10)
@example(text="A" * 513)
@example(text="A" * 100_000)
async def test_any_text_other_than_the_issued_cursor_is_cursor_invalid(walk: Walk, text: str) -> None:
    for path in walk.lists:
        if text != walk.cursors[path]:
            assert (await walk.ask(path, f"cursor={percent_encoded(text)}")).code() == "CURSOR_INVALID"


@quick
@given(
    number=st.integers(0, 3),
    at=st.integers(0, 200),
    sign=st.sampled_from(ALPHABET + "=+/. \n%é"),
    how=st.sampled_from(["replace", "insert", "delete", "cut", "append", "double", "upper"]),
)
async def test_a_cursor_that_was_altered_is_cursor_invalid(
    walk: Walk, number: int, at: int, sign: str, how: str
) -> None:
    path = walk.lists[number]
    good = walk.cursors[path]
    at %= len(good)
    altered = {
        "replace": good[:at] + sign + good[at + 1 :],
        "insert": good[:at] + sign + good[at:],
        "delete": good[:at] + good[at + 1 :],
        "cut": good[:at],
        "append": good + sign,
        "double": good + good,
        "upper": good.swapcase(),
    }[how]
    if altered != good:
        assert (await walk.ask(path, f"cursor={percent_encoded(altered)}")).code() == "CURSOR_INVALID"
    assert (await walk.ask(path, f"cursor={good}")).status == 200


class Place(Struct):
    name: str


@pytest.mark.parametrize("name", ["a", "ab", "abc"], ids=["four bits", "two bits", "no bit"])
def test_a_cursor_with_its_unused_bits_changed_is_refused(name: str) -> None:
    """The last base64 character has unused bits when the number of bytes is not a multiple of three."""
    cursors = Cursors([b"k" * 32])
    text = cursors.write(Place(name), "list")
    assert cursors.read(text, Place, "list") == Place(name)
    for other in ALPHABET.replace(text[-1], ""):
        with pytest.raises(Refused):
            cursors.read(text[:-1] + other, Place, "list")


async def test_a_cursor_of_another_list_account_or_mode_is_cursor_invalid(walk: Walk) -> None:
    for path, cursor in walk.cursors.items():
        for other in walk.lists:
            if other != path:
                assert (await walk.ask(other, f"cursor={cursor}")).code() == "CURSOR_INVALID"
        for stranger in walk.strangers:
            reply = await walk.ask(path, f"cursor={cursor}", stranger)
            assert reply.code() in ("CURSOR_INVALID", "WALLET_ACCOUNT_NOT_FOUND")


@pytest.mark.parametrize(
    ("number", "query"),
    [
        (0, "order=asc"), (0, "status=paid"), (0, "external_id=n1"), (0, "created_from=2020-01-01"), (0, "txid=x"),
        (0, "payer_document=12345678909"), (0, "due_to=2026-01-01"), (0, "payment_method=pix"), (1, "order=asc"),
        (1, "paid_from=2020-01-01"), (1, "method=pix"), (1, "anomaly=duplicate"), (2, "type=payment.received"),
        (2, "after_sequence=0"), (2, "created_to=2090-01-01"), (3, "type=payment"), (3, "created_from=2020-01-01"),
    ],
)  # fmt: skip
async def test_a_cursor_with_other_filters_is_cursor_invalid(walk: Walk, number: int, query: str) -> None:
    path = walk.lists[number]
    assert (await walk.ask(path, f"{query}&cursor={walk.cursors[path]}")).code() == "CURSOR_INVALID"


async def test_a_cursor_stays_valid_when_the_same_filters_are_in_another_order(walk: Walk) -> None:
    first = (await walk.ask("/v1/charges", "status=paid&status=pending&limit=2")).json()
    again = await walk.ask(
        "/v1/charges", f"cursor={first['next_cursor']}&limit=2&status=pending&status=paid&order=desc"
    )
    assert again.status == 200
    assert not {row["charge_id"] for row in first["data"]} & {row["charge_id"] for row in again.json()["data"]}


async def test_cursors_are_base64url_and_do_not_contain_the_account_id(walk: Walk) -> None:
    for cursor in walk.cursors.values():
        assert set(cursor) <= set(ALPHABET)
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        assert str(walk.api.first.account_id).encode() not in raw
