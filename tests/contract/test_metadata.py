"""The merchant's metadata of a charge: shown wherever the charge is shown, and in no event."""

import secrets
from typing import Any

import pytest

from tests.support.boleto_merchant import issue_boleto
from tests.support.dual_merchant import issue_dual_charge
from tests.support.in_process import Api, Reply, envelope
from tests.support.merchant import ApiMerchant

GIVEN = {"store": "recife-2", "ação": "promoção \U0001f4b8", "cart": "", "a b": "'; DROP"}
PIX = "/v1/charges/pix"


async def create(api: Api, key: str, **more: Any) -> Reply:
    return await api.post(PIX, api.pix(**more), token=await api.token(), key=key)


async def test_creation_replay_lookup_and_list_show_the_same_metadata(api: Api) -> None:
    key, token = secrets.token_hex(8), await api.token()
    made = await create(api, key, metadata=GIVEN)
    assert made.status == 201
    assert made.json()["metadata"] == GIVEN
    charge_id = made.json()["charge_id"]
    replayed = await create(api, key, metadata=dict(reversed(GIVEN.items())))
    looked_up = await api.get(f"/v1/charges/{charge_id}", token=token)
    assert (replayed.status, looked_up.status) == (200, 200)
    assert made.body == replayed.body == looked_up.body
    listed = (await api.get(f"/v1/charges?txid={made.json()['pix']['txid']}", token=token)).json()["data"]
    assert listed == [made.json()]
    other = await create(api, key, metadata=GIVEN | {"store": "recife-3"})
    assert other.code() == "IDEMPOTENCY_KEY_REUSED"


async def test_payment_and_cancellation_keep_metadata_and_their_events_omit_it(api: Api) -> None:
    token = await api.token()
    for change in ("simulate-payment", "cancel"):
        charge_id = (await api.create(metadata=GIVEN))["charge_id"]
        changed = await api.post(f"/v1/charges/{charge_id}/{change}", None, token=token)
        assert changed.json()["metadata"] == GIVEN
        (event,) = (await api.get(f"/v1/events?charge_id={charge_id}", token=token)).json()["data"]
        assert "metadata" not in event


async def test_a_charge_created_without_metadata_shows_none_and_an_empty_object_is_kept(api: Api) -> None:
    assert "metadata" not in await api.create()
    assert "metadata" not in await api.create(metadata=None)
    assert (await api.create(metadata={}))["metadata"] == {}


async def test_boletos_and_dual_charges_have_metadata_too(merchant: ApiMerchant) -> None:
    client = merchant.sandbox
    for made in (await issue_boleto(client, metadata=GIVEN), await issue_dual_charge(client, metadata=GIVEN)):
        assert made["metadata"] == GIVEN
        assert (await client.charge(made["charge_id"]))["metadata"] == GIVEN


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({"k": 7}, {"metadata.k": "must be text"}),
        ({"k": None, "l": "x" * 501}, {"metadata.k": "must be text", "metadata.l": "must have at most 500 characters"}),
        ({"k": "\u0000"}, {"metadata.k": "must not contain control characters"}),
        ({"k": {"deep": "x"}}, {"metadata.k": "must be text"}),
        ({"": "x"}, {"metadata": "each key must not be empty or contain control characters"}),
        ({"x" * 41: "x"}, {"metadata": "each key must have at most 40 characters"}),
        ({str(n): "x" for n in range(21)}, {"metadata": "must have at most 20 keys"}),
        ("text", {"metadata": "must be an object"}),
        (["k"], {"metadata": "must be an object"}),
    ],
)
async def test_invalid_metadata_is_refused_with_its_key_and_rule(
    api: Api, metadata: Any, fields: dict[str, str]
) -> None:
    reply = await create(api, secrets.token_hex(8), metadata=metadata, external_id=7)
    error = envelope(reply)
    assert error["code"] == "VALIDATION_ERROR"
    messages = {each["field"]: each["message"] for each in error["fields"]}
    assert messages == {"external_id": "must be text", **fields}


async def test_metadata_of_the_largest_allowed_size_are_stored_whole(api: Api) -> None:
    largest = {f"{n:02}" + "ç" * 38: "\U0001f4b8" * 500 for n in range(20)}
    made = await api.create(metadata=largest)
    assert made["metadata"] == largest
