"""Creations stored in one batch: an error of one or a lost reply of the whole statement does not affect the others."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest

from commands.bank_orders.pix_locations import LocationReserve, PixLocation
from commands.charges.create_boleto import order_boletos
from commands.charges.create_pix import create_pix
from commands.merchants.pix_suspension import resume_pix, suspend_pix
from domain.mode import Mode
from tests.support.dual_merchant import dual_body
from tests.support.in_process import Api

TOGETHER = 20


async def create(api: Api, token: str, keys: Sequence[str]) -> list[Any]:
    given = {"account_id": str(api.first.account_id), "amount": "10.00"}
    return await asyncio.gather(*(api.post("/v1/charges/pix", given, token=token, key=key) for key in keys))


async def locations(pool: Any, charge_ids: Sequence[str]) -> list[str]:
    rows = await pool.fetch(
        "SELECT location FROM charge WHERE charge_id = ANY($1)", [UUID(each) for each in charge_ids]
    )
    return [row["location"] for row in rows]


@pytest.mark.parametrize("mode", ["test", "production"])
@pytest.mark.parametrize("lost", [ConnectionResetError, ValueError], ids=["connection lost", "unexpected error"])
async def test_charges_of_a_batch_whose_reply_was_lost_are_answered_and_keep_their_locations(
    api: Api, pool: Any, mode: str, lost: type[Exception]
) -> None:
    token, failed = await api.token(mode=mode), False

    async def lose_the_first_answer(conn: Any, items: Any) -> set[UUID]:
        nonlocal failed
        stored = await create_pix(conn, items)
        if not failed:
            failed = True
            raise lost("the answer")
        return stored

    free: list[str] = []

    def given_back(_reserve: LocationReserve, _mode: Mode, locations: Sequence[PixLocation]) -> None:
        free.extend(each.location for each in locations)

    with (
        patch("api.operations.pix.create_pix", lose_the_first_answer),
        patch.object(LocationReserve, "give_back", given_back),
    ):
        made = await create(api, token, [str(uuid4()) for _ in range(3)])
    assert failed
    assert {reply.status for reply in made} <= {200, 201}
    for reply in made:
        looked_up = await api.get(f"/v1/charges/{reply.json()['charge_id']}", token=token)
        assert looked_up.json() == reply.json()
    taken = await locations(pool, [reply.json()["charge_id"] for reply in made])
    assert len(set(taken)) == 3
    assert not set(taken) & set(free)


async def test_the_location_of_a_charge_that_may_still_be_stored_is_not_reused(api: Api, pool: Any) -> None:
    """A statement whose connection is lost keeps running at the server. It may store the charge although the retry of
    its batch, one charge at a time, stores nothing because PIX was suspended meanwhile."""
    token, lost = await api.token(mode="production"), 0

    async def lose_the_batch(conn: Any, items: Any) -> set[UUID]:
        nonlocal lost
        if len(items) == 1:
            return await create_pix(conn, items)
        lost += len(items)
        async with pool.acquire() as other:
            await suspend_pix(other, now=datetime.now(UTC))
        raise ConnectionResetError("the answer")

    free: list[str] = []

    def given_back(_reserve: LocationReserve, _mode: Mode, locations: Sequence[PixLocation]) -> None:
        free.extend(each.location for each in locations)

    try:
        with (
            patch("api.operations.pix.create_pix", lose_the_batch),
            patch("api.operations.pix._DATABASE_BACK_S", 0.0),
            patch.object(LocationReserve, "give_back", given_back),
        ):
            replies = await create(api, token, [str(uuid4()) for _ in range(TOGETHER)])
    finally:
        async with pool.acquire() as conn:
            await resume_pix(conn)
    refused = [reply for reply in replies if reply.status == 403]
    assert lost
    assert len(refused) == TOGETHER - sum(reply.status == 201 for reply in replies) >= lost
    assert len(free) == len(refused) - lost


async def test_a_location_that_may_still_be_stored_is_not_reused_after_its_client_hangs_up(api: Api, pool: Any) -> None:
    token, lost = await api.token(mode="production"), list[str]()
    calls: list[asyncio.Task[Any]] = []

    async def lose_the_batch(conn: Any, items: Any) -> set[UUID]:
        if len(items) == 1:
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            return await create_pix(conn, items)
        lost.extend(item.location for item in items)
        async with pool.acquire() as other:
            await suspend_pix(other, now=datetime.now(UTC))
        raise ConnectionResetError("the answer")

    free: list[str] = []

    def given_back(_reserve: LocationReserve, _mode: Mode, locations: Sequence[PixLocation]) -> None:
        free.extend(each.location for each in locations)

    given = {"account_id": str(api.first.account_id), "amount": "10.00"}
    try:
        with (
            patch("api.operations.pix.create_pix", lose_the_batch),
            patch("api.operations.pix._DATABASE_BACK_S", 0.0),
            patch.object(LocationReserve, "give_back", given_back),
        ):
            for _ in range(TOGETHER):
                posted = api.post("/v1/charges/pix", given, token=token, key=str(uuid4()))
                calls.append(asyncio.create_task(posted))
            await asyncio.gather(*calls, return_exceptions=True)
            # This creation comes after the batch whose clients hung up.
            assert (await api.post("/v1/charges/pix", given, token=token, key=str(uuid4()))).status == 403
    finally:
        async with pool.acquire() as conn:
            await resume_pix(conn)
    assert lost
    assert not set(lost) & set(free)


async def test_a_dual_charge_keeps_its_location_when_the_reply_to_its_stored_order_is_lost(api: Api, pool: Any) -> None:
    """If another charge got the location, two charges would have one QR Code."""
    token, keys, failed = await api.token(mode="production"), [str(uuid4()) for _ in range(6)], False

    async def lose_the_answer_to_several(conn: Any, orders: Any) -> set[UUID]:
        nonlocal failed
        written = await order_boletos(conn, orders)
        if len(orders) == 1:
            await asyncio.sleep(0.2)  # Meanwhile the other orders gather in one batch.
        elif not failed:
            failed = True
            raise ConnectionResetError("the answer")
        return written

    free: list[int] = []

    def given_back(_reserve: LocationReserve, _mode: Mode, locations: Sequence[PixLocation]) -> None:
        free.extend(each.location_id for each in locations)

    async def all_ordered() -> list[int]:
        rows = await pool.fetch(
            "SELECT (request #>> '{pix,location_id}')::bigint FROM bank_order"
            " WHERE kind = 'boleto_register' AND request ->> 'key' = ANY($1)",
            keys,
        )
        return [row[0] for row in rows]

    with (
        patch("commands.bank_orders.boleto_issuer.order_boletos", lose_the_answer_to_several),
        patch.object(LocationReserve, "give_back", given_back),
    ):
        asked = [
            asyncio.create_task(api.post("/v1/charges/dual", dual_body(), token=token, key=key)) for key in keys
        ]  # The requests wait for a bank that never answers.
        try:
            async with asyncio.timeout(30):
                while len(await all_ordered()) < len(keys):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1.5)  # The orders whose reply was lost are retried one at a time.
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
    taken = await all_ordered()
    assert failed
    assert len(set(taken)) == len(keys)
    assert not set(taken) & set(free)


async def test_a_key_locked_by_another_transaction_fails_no_other_creation_of_its_batch(api: Api, pool: Any) -> None:
    token, keys = await api.token(), [str(uuid4()) for _ in range(TOGETHER)]
    (made,) = await create(api, token, [str(uuid4())])
    charge = UUID(made.json()["charge_id"])
    async with pool.acquire() as conn:
        holding = conn.transaction()
        await holding.start()
        await conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        await conn.execute(
            "INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)"
            " VALUES ($1, true, $2, $3, 'charge', $4, now())",
            api.first.account_id, keys[TOGETHER // 2], bytes(32), charge,
        )  # fmt: skip
        try:
            replies = await create(api, token, keys)
        finally:
            await holding.rollback()
    statuses = [reply.status for reply in replies]
    assert statuses.pop(TOGETHER // 2) == 503
    assert statuses == [201] * (TOGETHER - 1)
    (again,) = await create(api, token, [keys[TOGETHER // 2]])
    assert again.status == 201


async def test_a_charge_locked_by_another_transaction_fails_no_other_cancellation_of_its_batch(
    api: Api, pool: Any
) -> None:
    token = await api.token()
    made = await create(api, token, [str(uuid4()) for _ in range(TOGETHER)])
    charge_ids = [reply.json()["charge_id"] for reply in made]
    held = charge_ids[TOGETHER // 2]
    async with pool.acquire() as conn:
        holding = conn.transaction()
        await holding.start()
        await conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        await conn.execute("SELECT FROM charge WHERE charge_id = $1 FOR UPDATE", UUID(held))
        try:
            replies = await asyncio.gather(
                *(api.post(f"/v1/charges/{each}/cancel", None, token=token) for each in charge_ids)
            )
        finally:
            await holding.rollback()
    statuses = [reply.status for reply in replies]
    assert statuses.pop(TOGETHER // 2) == 503
    assert statuses == [200] * (TOGETHER - 1)
    assert (await api.post(f"/v1/charges/{held}/cancel", None, token=token)).status == 200
