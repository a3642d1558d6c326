"""The exact fields of each answer: names, order where it is promised, types, formats, nulls.

Sources: spec (Charge, PIX block, Webhook payload, Balance, List envelope), contract sections 5, 7, 8 and 10.
"""

import base64
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.support.br_code_reader import parse_br_code
from tests.support.in_process import Api, open_api

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
MASKED = re.compile(r"\*{3}\.[0-9]{3}\.[0-9]{3}-\*\*")
REAIS = re.compile(r"[0-9]+\.[0-9]{2}")

CHARGE = {
    "charge_id": UUID, "account_id": UUID, "external_id": None, "public_id": re.compile(r"[A-Za-z0-9_-]{20,}"),
    "payment_url": re.compile(r"https?://[^/]+/pagar/[A-Za-z0-9_-]{20,}"), "pdf_url": None,
    "payment_method": "pix", "status": "pending", "amount": "12.30", "description": None, "pix": dict, "boleto": None,
    "payment": None, "created_at": INSTANT, "due_date": None, "effective_due_date": None, "expires_at": INSTANT,
    "paid_at": None, "cancelled_at": None, "refunded_amount": "0.00", "failure": None, "test": True, "version": 1,
}  # fmt: skip
BLOCK = {
    "payment_id": UUID, "method": "pix", "amount": "12.30", "fee": "0.00", "net_amount": "12.30", "paid_at": INSTANT,
    "credited_at": INSTANT, "end_to_end_id": re.compile(r"E[0-9]{20}[0-9A-Za-z]{11}"), "payer": dict,
    "interest": "0.00", "fine": "0.00", "discount": "0.00", "late": False, "refunded_amount": "0.00",
}  # fmt: skip
EVENT = (
    "event", "event_id", "charge_id", "account_id", "status", "amount", "external_id", "test", "paid_at",
)  # fmt: skip
"""The fields of an event in the order of the spec's table; additional fields follow them."""


def matches(given: dict[str, Any], shape: dict[str, Any]) -> None:
    """Assert exactly these fields. `shape` has a value, a pattern of the whole text, or a type for each."""
    assert set(given) == set(shape)
    for name, wanted in shape.items():
        value = given[name]
        if isinstance(wanted, re.Pattern):
            assert isinstance(value, str), name
            assert wanted.fullmatch(value), (name, value)
        elif isinstance(wanted, type):
            assert type(value) is wanted, (name, value)
        else:
            assert type(value) is type(wanted), (name, value)
            assert value == wanted, name


async def paid(api: Api, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Create and pay a charge. Returns it as created and as paid."""
    made = await api.create(amount="12.3", **more)
    reply = await api.post(f"/v1/charges/{made['charge_id']}/simulate-payment", None, token=await api.token())
    assert reply.status == 200, reply
    return made, reply.json()


async def read(api: Api, path: str) -> Any:
    reply = await api.get(path, token=await api.token())
    assert reply.status == 200, reply
    assert reply.header("content-type") == "application/json"
    return reply.json()


async def test_a_new_pix_charge_has_exactly_the_fields_of_the_projection(api: Api) -> None:
    before = datetime.now(UTC)
    made = await api.create(amount="12.3")
    matches(made, CHARGE)
    matches(
        made["pix"],
        {
            "txid": re.compile(r"[0-9A-Za-z]{32}"),
            "qr_code": re.compile(r"000201010212.+6304[0-9A-F]{4}"),
            "qr_code_image": re.compile(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}"),
        },
    )
    assert base64.b64decode(made["pix"]["qr_code_image"].partition(",")[2]).startswith(b"\x89PNG\r\n\x1a\n")
    created, expires = (msgspec.convert(made[name], datetime) for name in ("created_at", "expires_at"))
    assert expires - created == timedelta(days=1)
    assert abs(created - before) < timedelta(seconds=5)


async def test_external_id_and_description_are_returned_as_sent(api: Api) -> None:
    reference = "NF-1 / ação \U0001f4b8 \u202e <b>' ; DROP\t"
    made = await api.create(external_id=reference, description="Pão & café", expires_in=60)
    assert (made["external_id"], made["description"]) == (reference, "Pão & café")
    assert (await read(api, f"/v1/charges/{made['charge_id']}"))["external_id"] == reference
    assert (await api.create(external_id=""))["external_id"] == ""


async def test_unknown_fields_are_ignored_and_the_answer_does_not_contain_the_payer(api: Api) -> None:
    made = await api.create(
        amount="12.3", surprise={"a": [1, None]}, payer={"name": "Ana", "document": "12345678909", "x": 1}
    )
    matches(made, CHARGE)
    assert "12345678909" not in msgspec.json.encode(made).decode()


async def test_a_production_charge_has_test_false(api: Api) -> None:
    made = await api.create(amount="12.3", token=await api.token(mode="production"))
    matches(made, CHARGE | {"test": False})


async def test_the_br_code_is_dynamic_and_contains_the_amount(api: Api) -> None:
    objects = parse_br_code((await api.create(amount="12.3"))["pix"]["qr_code"])
    assert objects["01"] == "12"
    assert objects["54"] == "12.30"
    assert objects["53"] == "986"
    assert objects["62-05"] == "***"
    assert len(objects["26-25"]) <= 77
    assert "26-01" not in objects


async def test_creation_replay_lookup_and_list_answer_the_same_bytes(api: Api) -> None:
    token, key = await api.token(), secrets.token_hex(8)
    name = secrets.token_hex(6)
    first = await api.post("/v1/charges/pix", api.pix(external_id=name), token=token, key=key)
    again = await api.post("/v1/charges/pix", api.pix(external_id=name), token=token, key=key)
    assert (first.status, again.status) == (201, 200)
    assert first.header("idempotent-replayed") is None
    assert (again.header("idempotent-replayed"), again.header("idempotency-key")) == ("true", key)
    charge_id = first.json()["charge_id"]
    one = await api.get(f"/v1/charges/{charge_id}", token=token)
    listed = (await read(api, f"/v1/charges?external_id={name}"))["data"]
    assert first.body == again.body == one.body
    assert [msgspec.json.encode(each) for each in listed] == [msgspec.json.encode(first.json())]


async def test_a_paid_charge_has_the_payment_block_with_its_payer_masked(api: Api) -> None:
    made, after = await paid(api, payer={"name": "Ana Lima", "document": "12345678909"})
    matches(after, CHARGE | {"status": "paid", "payment": dict, "paid_at": INSTANT, "version": 2})
    matches(after["payment"], BLOCK)
    matches(after["payment"]["payer"], {"name": str, "document": MASKED})
    assert after["payment"]["paid_at"] == after["paid_at"]
    assert {name: after[name] for name in ("charge_id", "public_id", "pix", "created_at", "expires_at")} == {
        name: made[name] for name in ("charge_id", "public_id", "pix", "created_at", "expires_at")
    }
    assert await read(api, f"/v1/charges/{made['charge_id']}") == after


async def test_payments_whose_payer_cannot_be_decrypted_are_shown_without_payer(api: Api, servers: Any) -> None:
    """After the loss of a SECRET_KEY, books and balances are still readable (docs/security.md)."""
    made, _ = await paid(api, payer={"name": "Maria", "document": "52998224725"})
    token, charge_id = await api.token(), made["charge_id"]
    async with open_api(servers.database_url, servers.redis_url, SECRET_KEY="77" * 32) as later:
        for path, at in ((f"/v1/charges/{charge_id}", None), ("/v1/payments", 0), ("/v1/charges", 0)):
            reply = await later.get(path, token=token)
            assert reply.status == 200, reply
            shown = reply.json() if at is None else reply.json()["data"][at]
            assert shown["charge_id"] == charge_id
            assert (shown.get("payment") or shown)["payer"] == {"name": None, "document": None}
            assert (shown.get("payment") or shown)["amount"] == made["amount"]


async def test_a_cancelled_charge_shows_cancelled_at(api: Api) -> None:
    made = await api.create(amount="12.3")
    reply = await api.post(f"/v1/charges/{made['charge_id']}/cancel", None, token=await api.token())
    assert reply.status == 200
    matches(reply.json(), CHARGE | {"status": "cancelled", "cancelled_at": INSTANT, "version": 2})


@pytest.mark.parametrize("reason", [None, "cancelled", "paid_externally"])
async def test_cancelling_by_external_id_answers_like_cancelling_by_id(api: Api, reason: str | None) -> None:
    made = await api.create(amount="12.3", external_id=(name := secrets.token_hex(8)))
    given = {"external_id": name, **({} if reason is None else {"reason": reason})}
    reply = await api.post("/v1/charges/cancel", given, token=await api.token())
    matches(
        reply.json(),
        CHARGE | {"status": "cancelled", "cancelled_at": INSTANT, "version": 2, "external_id": name},
    )
    (event,) = (await read(api, f"/v1/events?charge_id={made['charge_id']}"))["data"]
    assert event["reason"] == (reason or "cancelled")


async def test_a_charge_past_its_expiry_is_read_as_expired(api: Api, pool: Any) -> None:
    made = await api.create(amount="12.3", expires_in=60)
    past = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=1)
    await pool.execute("UPDATE charge SET expires_at = $2 WHERE charge_id = $1", made["charge_id"], past)
    await pool.execute(
        "UPDATE read_charge SET changes = $2 WHERE charge_id = $1",
        made["charge_id"], msgspec.json.encode({"expires_at": past.strftime("%Y-%m-%dT%H:%M:%S.000Z")}),
    )  # fmt: skip
    after = await read(api, f"/v1/charges/{made['charge_id']}")
    matches(after, CHARGE | {"status": "expired", "version": 2})


async def test_lists_have_exactly_data_and_next_cursor(api: Api) -> None:
    await paid(api)
    for path in (
        "/v1/charges", "/v1/payments", "/v1/events", f"/v1/accounts/{api.first.account_id}/ledger",
    ):  # fmt: skip
        for query in ("?limit=1", "?limit=100"):
            page = await read(api, path + query)
            assert list(page) == ["data", "next_cursor"]
            assert page["data"]
            assert page["next_cursor"] is None or re.fullmatch("[A-Za-z0-9_-]+", page["next_cursor"])


async def test_lists_balance_and_summary_of_a_new_account_are_empty(api: Api) -> None:
    token = await api.token(api.second, "production")
    account = api.second.account_id
    for path in ("/v1/charges", "/v1/payments", "/v1/events", f"/v1/accounts/{account}/ledger"):
        reply = await api.get(path, token=token)
        assert reply.json() == {"data": [], "next_cursor": None}
    assert (await api.get(f"/v1/accounts/{account}/balance", token=token)).json() == {
        "balance": "0.00", "currency": "BRL",
    }  # fmt: skip
    rows = (await api.get("/v1/charges/summary", token=token)).json()["data"]
    assert [row["status"] for row in rows] == ["pending", "paid", "expired", "cancelled", "refunded", "failed"]
    assert all((row["count"], row["amount"]) == (0, "0.00") for row in rows)


@pytest.mark.parametrize("reference", [None, "pedido 7"])
async def test_an_item_of_the_payments_list_is_the_payment_block_and_its_charges_fields(
    api: Api, reference: str | None
) -> None:
    more = {} if reference is None else {"external_id": reference}
    made, after = await paid(api, **more)
    (item,) = (await read(api, f"/v1/payments?charge_id={made['charge_id']}"))["data"]
    matches(
        item,
        BLOCK
        | {
            "charge_id": made["charge_id"], "external_id": reference, "account_id": str(api.first.account_id),
            "payment_method": "pix", "txid": made["pix"]["txid"], "nosso_numero": None, "integrador_code": None,
            "anomaly": None, "test": True,
        },
    )  # fmt: skip
    assert {name: item[name] for name in BLOCK} == after["payment"]


async def test_the_payload_of_a_payment_has_the_fields_of_the_spec_in_their_order(api: Api) -> None:
    made, after = await paid(api, external_id="pedido 8")
    (item,) = (await read(api, f"/v1/events?charge_id={made['charge_id']}&type=payment.received"))["data"]
    assert tuple(item)[: len(EVENT)] == EVENT
    assert tuple(item)[-3:] == ("type", "sequence", "created_at")
    matches(
        item,
        {
            "event": "payment.received", "event_id": UUID, "charge_id": made["charge_id"],
            "account_id": str(api.first.account_id), "status": "paid", "amount": "12.30", "external_id": "pedido 8",
            "test": True, "paid_at": after["paid_at"], "payment_id": after["payment"]["payment_id"], "method": "pix",
            "anomaly": None, "version": 2, "type": "payment.received", "sequence": int, "created_at": INSTANT,
        },
    )  # fmt: skip


async def test_the_payload_of_a_cancellation_has_reason_and_instant_and_no_paid_at(api: Api) -> None:
    made = await api.create(amount="12.3", external_id="pedido 9")
    after = (await api.post(f"/v1/charges/{made['charge_id']}/cancel", None, token=await api.token())).json()
    (item,) = (await read(api, f"/v1/events?charge_id={made['charge_id']}"))["data"]
    assert tuple(item)[: len(EVENT) - 1] == EVENT[:-1]
    matches(
        item,
        {
            "event": "charge.cancelled", "event_id": UUID, "charge_id": made["charge_id"],
            "account_id": str(api.first.account_id), "status": "cancelled", "amount": "12.30",
            "external_id": "pedido 9", "test": True, "reason": "cancelled", "cancelled_at": after["cancelled_at"],
            "version": 2, "type": "charge.cancelled", "sequence": int, "created_at": INSTANT,
        },
    )  # fmt: skip


async def test_an_event_of_a_charge_without_external_id_leaves_the_field_out(api: Api) -> None:
    made, _ = await paid(api)
    (item,) = (await read(api, f"/v1/events?charge_id={made['charge_id']}"))["data"]
    assert "external_id" not in item
    assert tuple(item)[: len(EVENT) - 1] == tuple(name for name in EVENT if name != "external_id")


async def test_the_feed_contains_the_webhooks_bytes_word_for_word(api: Api, pool: Any) -> None:
    made, _ = await paid(api, external_id='aspas " e \\ barra é \u2028')
    reply = await api.get(f"/v1/events?charge_id={made['charge_id']}", token=await api.token())
    (item,) = reply.json()["data"]
    whole = await pool.fetchval("SELECT event_body FROM journal WHERE event_id = $1", item["event_id"])
    assert whole[:-1] in reply.body
    assert msgspec.json.decode(whole) == {k: v for k, v in item.items() if k not in ("type", "sequence", "created_at")}


async def test_a_ledger_entry_has_exactly_the_fields_of_the_contract(api: Api) -> None:
    account = api.first.account_id
    earlier = (await read(api, f"/v1/accounts/{account}/balance"))["balance"]
    made, after = await paid(api, external_id="pedido 10")
    line = (await read(api, f"/v1/accounts/{account}/ledger?limit=1"))["data"][0]
    balance = await read(api, f"/v1/accounts/{account}/balance")
    matches(balance, {"balance": REAIS, "currency": "BRL"})
    assert list(balance) == ["balance", "currency"]
    matches(
        line,
        {
            "entry_id": UUID, "sequence": int, "type": "payment", "direction": "credit", "amount": "12.30",
            "balance_after": balance["balance"], "charge_id": made["charge_id"],
            "payment_id": after["payment"]["payment_id"], "refund_id": None, "withdrawal_id": None,
            "external_id": "pedido 10", "created_at": INSTANT, "test": True,
        },
    )  # fmt: skip
    assert cents(balance["balance"]) - cents(earlier) == 1230


async def test_the_summary_counts_every_status(api: Api) -> None:
    name = secrets.token_hex(6)
    await api.create(amount="1", external_id=name)
    await api.create(amount="2.5", external_id=name)
    await paid(api, external_id=name)
    page = await read(api, f"/v1/charges/summary?external_id={name}")
    assert list(page) == ["data"]
    assert page["data"] == [
        {"status": status, "count": count, "amount": amount}
        for status, count, amount in (
            ("pending", 2, "3.50"), ("paid", 1, "12.30"), ("expired", 0, "0.00"), ("cancelled", 0, "0.00"),
            ("refunded", 0, "0.00"), ("failed", 0, "0.00"),
        )
    ]  # fmt: skip


async def test_an_idempotency_key_shows_its_state_resource_and_replays(api: Api) -> None:
    token = await api.token()
    for key in (secrets.token_hex(8), f"a/b {secrets.token_hex(4)}%?", f"//{secrets.token_hex(4)}/"):
        path = "/v1/idempotency-keys/" + "".join(f"%{ord(sign):02X}" for sign in key)
        unknown = {
            "key": key, "state": "unknown", "resource_type": None, "resource_id": None, "first_used_at": None,
            "replay_count": 0,
        }  # fmt: skip
        matches(await read(api, path), unknown)
        made = (await api.post("/v1/charges/pix", api.pix(), token=token, key=key)).json()
        await api.post("/v1/charges/pix", api.pix(), token=token, key=key)
        matches(
            await read(api, path),
            {
                "key": key, "state": "completed", "resource_type": "charge", "resource_id": made["charge_id"],
                "first_used_at": INSTANT, "replay_count": 1,
            },
        )  # fmt: skip


def cents(reais: str) -> int:
    return int(reais.replace(".", ""))
