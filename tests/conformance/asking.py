"""Functions that bring about each error that belongs to one operation: an Ask sends a request in the circumstances in
which it is refused.

Where a refusal must change nothing, the Ask asserts that too.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from commands.merchants.integrators import create_integrator
from tests.conformance.requests import BODIES
from tests.conformance.world import NOBODY, PIX, SCHEDULES, World, schedule_body
from tests.support.boleto_merchant import BOLETO, DUE_DATE, boleto_body, in_days
from tests.support.dual_merchant import DUAL, dual_body
from tests.support.in_process import Reply

Ask = Callable[[World], Awaitable[Reply]]
CANCEL: Final = "/v1/charges/cancel"
LEFT_OUT: Final = object()
UNAVAILABLE: Final = [(b"x-sandbox-bank", b"unavailable")]


def _changed(body: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**body, **more}.items() if value is not LEFT_OUT}


def pix(mode: str = "test", **more: Any) -> Ask:
    async def ask(world: World) -> Reply:
        body = _changed(BODIES["createPixCharge"](world, world.mine), more)
        return await world.send("POST", PIX, body, token=await world.token(mode), key=World.new_key())

    return ask


def boleto(mode: str = "test", **more: Any) -> Ask:
    async def ask(world: World) -> Reply:
        return await world.send(
            "POST", BOLETO, _changed(boleto_body(), more), token=await world.token(mode), key=World.new_key()
        )

    return ask


def both_legs(mode: str = "test", **more: Any) -> Ask:
    async def ask(world: World) -> Reply:
        return await world.send(
            "POST", DUAL, _changed(dual_body(), more), token=await world.token(mode), key=World.new_key()
        )

    return ask


def schedule(**more: Any) -> Ask:
    async def ask(world: World) -> Reply:
        return await world.production("POST", SCHEDULES, _changed(schedule_body(), more), key=World.new_key())

    return ask


def redate(**body: Any) -> Ask:
    async def ask(world: World) -> Reply:
        return await world.test("PATCH", DUE_DATE, body)

    return ask


def by_reference(**body: Any) -> Ask:
    async def ask(world: World) -> Reply:
        return await world.test("POST", CANCEL, body)

    return ask


def while_suspended(ask: Ask) -> Ask:
    async def suspended(world: World) -> Reply:
        async with world.pix_suspended():
            return await ask(world)

    return suspended


# Accounts


async def pix_for_another_merchant(world: World) -> Reply:
    return await pix(account_id=str(world.theirs.account_id))(world)


async def boleto_for_another_merchant(world: World) -> Reply:
    return await boleto(account_id=str(world.theirs.account_id))(world)


async def dual_for_another_merchant(world: World) -> Reply:
    return await both_legs(account_id=str(world.theirs.account_id))(world)


def without_address(path: str, body: Callable[[], dict[str, Any]], mode: str = "test") -> Ask:
    async def ask(world: World) -> Reply:
        incomplete = await world.merchant(address=False)
        return await world.send("POST", path, body(), token=await world.token(mode, of=incomplete), key=World.new_key())

    return ask


def with_inactive_code(path: str, body: Callable[[], dict[str, Any]]) -> Ask:
    async def ask(world: World) -> Reply:
        async with world.pool.acquire() as conn:
            made = await create_integrator(conn, name="Parceiro", account_id=None, now=datetime.now(UTC))
            await conn.execute("UPDATE integrator SET active = false WHERE integrador_code = $1", made.integrador_code)
        given = {**body(), "integrador_code": made.integrador_code}
        return await world.test("POST", path, given, key=World.new_key())

    return ask


# The bank


async def pix_without_a_location(world: World) -> Reply:
    async with world.no_locations():
        return await pix("production")(world)


def unavailable(path: str, body: Callable[[], dict[str, Any]]) -> Ask:
    """Returns an Ask with the sandbox's bank unavailable. No charge is created, so no charge has the reference."""

    async def ask(world: World) -> Reply:
        key, reference = World.new_key(), World.new_key()
        given = {**body(), "external_id": reference}
        reply = await world.test("POST", path, given, key=key, headers=UNAVAILABLE)
        left = await world.test("GET", f"/v1/charges?external_id={reference}")
        assert left.json()["data"] == [], left
        return reply

    return ask


def with_silent_bank(make: Callable[[World], Awaitable[str]], ask_of: Callable[[World, str], Awaitable[Reply]]) -> Ask:
    """Returns an Ask during which the bank does not answer; the charge must stay as it was."""

    async def ask(world: World) -> Reply:
        charge_id = await make(world)
        before = await world.test("GET", f"/v1/charges/{charge_id}")
        async with world.silent_bank():
            reply = await ask_of(world, charge_id)
        after = await world.test("GET", f"/v1/charges/{charge_id}")
        assert after.json() == before.json(), after
        assert int(str(reply.header("retry-after"))) >= 1, reply
        return reply

    return ask


# Existing charges, named in the path or in the body


def act_on_charge(action: str, body: Any = None) -> Callable[[World, str], Awaitable[Reply]]:
    async def ask(world: World, charge_id: str) -> Reply:
        return await world.test("POST", f"/v1/charges/{charge_id}/{action}", body)

    return ask


def act_on_test_charge(action: str, body: Any = None) -> Callable[[World, str], Awaitable[Reply]]:
    async def ask(world: World, charge_id: str) -> Reply:
        return await world.test("POST", f"/v1/sandbox/charges/{charge_id}/{action}", body)

    return ask


async def cancel_by_reference(world: World, charge_id: str) -> Reply:
    return await by_reference(charge_id=charge_id)(world)


async def redate_charge(world: World, charge_id: str) -> Reply:
    return await redate(charge_id=charge_id, due_date=in_days(20))(world)


def on_charge_in_state(state: str, ask_of: Callable[[World, str], Awaitable[Reply]], *, boleto: bool = False) -> Ask:
    """Returns an Ask about a charge in this state, which must stay as it is."""

    async def ask(world: World) -> Reply:
        charge_id = await world.in_state(state, world.boleto if boleto else None)
        before = await world.test("GET", f"/v1/charges/{charge_id}")
        reply = await ask_of(world, charge_id)
        after = await world.test("GET", f"/v1/charges/{charge_id}")
        assert after.json() == before.json(), after
        return reply

    return ask


def by_foreign_reference(field: str, ask_with: Callable[..., Ask], whose: str, **more: Any) -> Ask:
    """Returns an Ask whose body names a charge of another merchant or mode, to be answered like an unknown charge."""

    async def ask(world: World) -> Reply:
        reference = World.new_key()
        owner = world.theirs if whose == "theirs" else world.mine
        mode = "production" if whose == "production" else "test"
        make = world.boleto if ask_with is redate else world.pix
        charge_id = await make(mode, owner, external_id=reference)
        named = {"charge_id": charge_id, "external_id": reference}[field]
        nobody = {"charge_id": NOBODY, "external_id": "nobody's"}[field]
        reply = await ask_with(**{field: named}, **more)(world)
        unknown = await ask_with(**{field: nobody}, **more)(world)
        ids = [str(each.header("x-request-id")).encode() for each in (reply, unknown)]
        assert reply.body.replace(ids[0], b"") == unknown.body.replace(ids[1], b""), reply
        return reply

    return ask


def ambiguous(ask_with: Callable[..., Ask], **more: Any) -> Ask:
    async def ask(world: World) -> Reply:
        reference = World.new_key()
        make = world.boleto if ask_with is redate else world.pix
        for _ in range(2):
            await make(external_id=reference)
        return await ask_with(external_id=reference, **more)(world)

    return ask


def no_longer_pending(ask_with: Callable[..., Ask], **more: Any) -> Ask:
    """Returns an Ask by a reference whose only charge is paid, so that no pending charge has it."""

    async def ask(world: World) -> Reply:
        reference = World.new_key()
        await world.in_state("paid", world.boleto if ask_with is redate else None, external_id=reference)
        return await ask_with(external_id=reference, **more)(world)

    return ask


async def pdf_of_pix(world: World) -> Reply:
    return await world.test("GET", f"/v1/charges/boleto/{await world.pix()}/pdf")


async def redate_pix(world: World) -> Reply:
    return await redate_charge(world, await world.pix())


async def look_up_invalid_key(world: World) -> Reply:
    return await world.test("GET", "/v1/idempotency-keys/%00")


async def token_expired(world: World) -> Reply:
    fresh = await world.merchant()
    token = await world.token(of=fresh)
    await world.pool.execute(
        "UPDATE access_token SET expires_at = now() - interval '1 second' WHERE client_id = $1", fresh.test.client_id
    )
    return await world.send("GET", "/v1/charges", token=token)


def move_clock(**body: Any) -> Ask:
    async def ask(world: World) -> Reply:
        return await world.test("POST", "/v1/sandbox/clock", body)

    return ask


# Refunds


def refund(make: Callable[[World], Awaitable[str]], body: dict[str, Any]) -> Ask:
    async def ask(world: World) -> Reply:
        return await world.test("POST", f"/v1/charges/{await make(world)}/refunds", body, key=World.new_key())

    return ask


async def refund_twice(world: World) -> Reply:
    charge_id = await world.paid()
    path = f"/v1/charges/{charge_id}/refunds"
    first = await world.test("POST", path, {"amount": "6.00"}, key=World.new_key())
    assert first.status == 201, first
    return await world.test("POST", path, {"amount": "4.01"}, key=World.new_key())


async def refund_without_balance(world: World) -> Reply:
    charge_id = await world.paid()
    await world.empty_wallet()
    return await world.test("POST", f"/v1/charges/{charge_id}/refunds", {}, key=World.new_key())


async def refund_of_another_payment(world: World) -> Reply:
    return await refund(lambda each: each.paid(), {"payment_id": NOBODY})(world)


# Schedules and mail


def on_ended_schedule(change: str) -> Ask:
    async def ask(world: World) -> Reply:
        schedule_id = await world.schedule()
        ending = "UPDATE schedule SET status = $2 WHERE schedule_id = $1"
        await world.pool.execute(ending, schedule_id, "finished" if change == "cancel" else "cancelled")
        return await world.production("POST", f"{SCHEDULES}/{schedule_id}/{change}")

    return ask


async def mail_of_cancelled(world: World) -> Reply:
    charge_id = await world.pix("production")
    await world.production("POST", f"/v1/charges/{charge_id}/cancel")
    return await world.production("POST", f"/v1/portal/charges/{charge_id}/send-email", {"to": "ana@example.com"})


async def mail_without_address(world: World) -> Reply:
    charge_id = await world.pix("production", payer={"name": "Ana"})
    return await world.production("POST", f"/v1/portal/charges/{charge_id}/send-email", {})


# Withdrawals


def withdraw(**body: Any) -> Ask:
    async def ask(world: World) -> Reply:
        await world.fund(world.mine)
        return await world.production("POST", "/v1/withdrawals", body, key=World.new_key())

    return ask


async def withdraw_more_than_the_balance(world: World) -> Reply:
    fresh = await world.merchant()
    await world.fund(fresh)
    token = await world.token("production", of=fresh)
    return await world.send("POST", "/v1/withdrawals", {"amount": "1000.01"}, token=token, key=World.new_key())


async def cancel_withdrawal_twice(world: World) -> Reply:
    path = f"/v1/withdrawals/{await world.withdrawal()}/cancel"
    first = await world.production("POST", path)
    assert (first.status, first.json()["status"]) == (200, "cancelled"), first
    return await world.production("POST", path)
