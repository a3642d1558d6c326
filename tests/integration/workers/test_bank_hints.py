"""A payment is booked once, when the bank's API confirms it, whatever callbacks say and whether or not they arrive."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from prometheus_client import REGISTRY

from banks.banco_do_brasil.callbacks import boleto_hints, pix_hints
from banks.protocol import Done, Location
from commands.bank_orders.callback import store_hints
from domain.errors import Code, Refused
from domain.mode import Mode
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from tests.support.banking import (
    BANK,
    RunningBank,
    make_account,
    make_charges,
    running_bank,
    status_of,
    utc_now,
    worker_context,
)
from tests.support.listening import listening
from workers.context import Context
from workers.incoming.boleto_payments import find_reported
from workers.incoming.hints import ATTEMPTS_MAX, HINTS_KEPT, drain_pix_hints
from workers.incoming.reconciler import reconcile
from workers.orders.pix import PixOrderWorker


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool) -> AsyncIterator[RunningBank]:
    # A worker killed by another test keeps its lease on the reconciler's pass for two minutes.
    await pool.execute("DELETE FROM lease WHERE name LIKE 'reconciler:%'")
    async with running_bank(pool) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def context(pool: Pool, servers: Any, bank: RunningBank) -> AsyncIterator[Context]:
    bank.wire.fault = "up"
    async with worker_context(pool, servers.redis_url, bank.adapter()) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def account(pool: Pool) -> UUID:
    return await make_account(pool)


async def registered_charge(context: Context, account: UUID, **more: Any) -> UUID:
    made = await context.banks.production[BANK].pix.create_locations(1)
    assert isinstance(made, Done)
    (charge_id,) = await make_charges(context.pool, account, made.value, test=False, **more)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    return charge_id


async def pay(bank: RunningBank, charge_id: UUID, **more: Any) -> list[dict[str, str]]:
    status, answer = await bank.control("pay", charge_id=str(charge_id), **more)
    assert status == 200, answer
    payments: list[dict[str, str]] = answer["payments"]
    return payments


async def hint(context: Context, *payments: Any, root: str | None = "pix") -> int:
    items = [{"endToEndId": each["end_to_end_id"], "txid": each["txid"], "valor": "1.00"} for each in payments]
    body = msgspec.json.encode({root: items} if root else items)
    async with transaction(context.pool) as conn:
        return await store_hints(conn, pix_hints(body), bank=BANK, now=utc_now())


async def payments_of(pool: Pool, charge_id: UUID) -> list[Any]:
    return list(await pool.fetch("SELECT * FROM payment WHERE charge_id = $1 ORDER BY source", charge_id))


async def attempts_of(pool: Pool, about: str) -> int | None:
    """How many checks of the hint found nothing at the bank; None once the hint is gone."""
    attempts: int | None = await pool.fetchval("SELECT attempts FROM bank_hint WHERE about = $1", about)
    return attempts


async def check_hints_now(context: Context) -> None:
    await context.pool.execute("UPDATE bank_hint SET due_at = '-infinity'")
    await drain_pix_hints(context)


async def reconcile_all(context: Context) -> int:
    """Run the reconciler until it finds nothing more: earlier tests left it at an unknown instant of the past."""
    found = 0
    for _ in range(200):
        found += (part := await reconcile(context, BANK))
        if not part:
            return found
    raise AssertionError("each of 200 passes of the reconciler found something")


async def test_a_callback_makes_the_worker_book_the_payment_the_bank_confirms(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await registered_charge(context, account)
    (payment,) = await pay(bank, charge_id)
    assert await hint(context, payment) == 1
    assert await drain_pix_hints(context) == 1
    (row,) = await payments_of(context.pool, charge_id)
    assert (row["source"], row["amount_cents"], row["settles"]) == (payment["end_to_end_id"], 1234, True)
    assert await status_of(context.pool, charge_id) == "paid"
    assert await attempts_of(context.pool, payment["end_to_end_id"]) is None
    assert await drain_pix_hints(context) == 0
    kept = "SELECT count(*) FROM bank_hint_done WHERE about = $1"
    assert await context.pool.fetchval(kept, payment["end_to_end_id"]) == 0, (
        "a checked hint about a PIX is deleted, not kept in bank_hint_done"
    )
    # A callback about another payment of the charge waits until the bank shows that payment.
    later = {"end_to_end_id": f"E{new_id().hex[:31]}", "txid": charge_id.hex}
    assert await hint(context, later) == 1
    await check_hints_now(context)
    assert await attempts_of(context.pool, later["end_to_end_id"]) == 1
    await context.pool.execute("DELETE FROM bank_hint WHERE about = $1", later["end_to_end_id"])


async def test_repeated_and_concurrent_callbacks_book_one_payment(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await registered_charge(context, account)
    (payment,) = await pay(bank, charge_id)
    assert await hint(context, payment, payment) == 1
    assert await hint(context, payment, root=None) == 0
    await asyncio.gather(
        *(drain_pix_hints(context) for _ in range(3)), reconcile(context, BANK), reconcile(context, BANK)
    )
    await check_hints_now(context)
    assert len(await payments_of(context.pool, charge_id)) == 1
    # A later callback makes the worker ask the bank once more.
    assert await hint(context, payment) == 1
    await check_hints_now(context)
    assert await attempts_of(context.pool, payment["end_to_end_id"]) is None
    assert len(await payments_of(context.pool, charge_id)) == 1


async def test_every_payment_in_a_callback_is_booked(context: Context, account: UUID, bank: RunningBank) -> None:
    charge_ids = [await registered_charge(context, account) for _ in range(3)]
    payments = [(await pay(bank, charge_id))[0] for charge_id in charge_ids]
    assert await hint(context, *payments) == 3
    await drain_pix_hints(context)
    assert {await status_of(context.pool, charge_id) for charge_id in charge_ids} == {"paid"}


async def test_a_forged_callback_books_nothing_and_does_not_hide_a_true_one(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await registered_charge(context, account)
    forged = {"end_to_end_id": f"E{new_id().hex[:31]}", "txid": charge_id.hex}
    await hint(context, forged)
    for _ in range(ATTEMPTS_MAX + 3):
        await check_hints_now(context)
    assert await payments_of(context.pool, charge_id) == []
    assert await status_of(context.pool, charge_id) == "pending"
    assert await attempts_of(context.pool, forged["end_to_end_id"]) is None
    # A real payment gets the forged id, and the bank calls back: the hint is checked again.
    (payment,) = await pay(bank, charge_id)
    await context.pool.execute(
        "UPDATE simulated_pix SET end_to_end_id = $1 WHERE end_to_end_id = $2",
        forged["end_to_end_id"], payment["end_to_end_id"],
    )  # fmt: skip
    assert await hint(context, forged) == 1
    await check_hints_now(context)
    assert await status_of(context.pool, charge_id) == "paid"


async def test_a_callback_that_was_confirmed_before_reports_no_further_payment_of_a_boleto(conn: Any) -> None:
    """Otherwise one payment of twice the amount would be booked as two."""
    await conn.execute(
        "INSERT INTO bank_hint (bank, about, txid, received_at, due_at)"
        " SELECT bank, 'boleto:17/' || n, '17', now(), now()"
        " FROM (VALUES ('001', 1), ('001', 2), ('999', 3)) AS h (bank, n)"
    )
    await conn.execute("INSERT INTO bank_hint_done (bank, about, confirmed_at) VALUES ('001', 'boleto:17/1', now())")
    (reported,) = await find_reported(conn, bank=BANK, numbers=["17", "18"])
    assert (reported.number, reported.payments) == ("17", 1)


async def test_checks_that_the_bank_does_not_answer_use_up_no_attempt_of_a_hint(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await registered_charge(context, account)
    (payment,) = await pay(bank, charge_id)
    await hint(context, payment)
    bank.wire.fault = "down"
    for _ in range(ATTEMPTS_MAX + 3):
        await check_hints_now(context)
    assert await attempts_of(context.pool, payment["end_to_end_id"]) == 0
    bank.wire.fault = "up"
    await check_hints_now(context)
    assert await status_of(context.pool, charge_id) == "paid"


async def test_a_hint_the_bank_never_answers_is_checked_ever_less_often_and_then_dropped(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await registered_charge(context, account)
    (payment,) = await pay(bank, charge_id)
    await hint(context, payment)
    bank.wire.fault = "down"
    row = "SELECT received_at, due_at FROM bank_hint WHERE about = $1"
    stored = await context.pool.fetchrow(row, payment["end_to_end_id"])
    assert stored is not None
    waits_s = []
    for passed in (timedelta(0), timedelta(minutes=10), timedelta(days=6), HINTS_KEPT + timedelta(minutes=1)):
        at = stored["received_at"] + passed
        context.now = lambda at=at: at  # type: ignore[misc]
        await check_hints_now(context)
        found = await context.pool.fetchrow(row, payment["end_to_end_id"])
        waits_s.append(None if found is None else round((found["due_at"] - at).total_seconds()))
    assert waits_s == [5, 60, 300, None]


async def test_callbacks_are_refused_while_too_many_wait_to_be_checked(
    context: Context, account: UUID, bank: RunningBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commands.bank_orders.callback.WAITING_MAX", 3)
    await context.pool.execute("DELETE FROM bank_hint")
    charge_ids = [await registered_charge(context, account) for _ in range(4)]
    payments = [(await pay(bank, charge_id))[0] for charge_id in charge_ids]
    for payment in payments[:3]:
        assert await hint(context, payment) == 1
    with pytest.raises(Refused) as told:
        await hint(context, payments[3])
    assert (told.value.code, told.value.retry_after_s) == (Code.SERVICE_UNAVAILABLE, 60)
    await drain_pix_hints(context)
    assert await hint(context, payments[3]) == 1


async def test_the_reconciler_books_payments_that_had_no_callback(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_ids = [await registered_charge(context, account) for _ in range(2)]
    payments = await pay(bank, charge_ids[0], times=2) + await pay(bank, charge_ids[1], amount="12.33")
    bank.wire.fault = "down"
    assert await reconcile(context, BANK) == 0
    assert await payments_of(context.pool, charge_ids[0]) == []
    bank.wire.fault = "up"
    context.now = lambda: utc_now() + timedelta(seconds=1)
    assert await reconcile_all(context) >= 3
    rows = await payments_of(context.pool, charge_ids[0]) + await payments_of(context.pool, charge_ids[1])
    assert {row["source"] for row in rows} == {payment["end_to_end_id"] for payment in payments}
    assert sorted(str(row["anomaly"]) for row in rows) == ["None", "amount_mismatch", "duplicate"]
    assert await status_of(context.pool, charge_ids[1]) == "pending"
    assert await reconcile(context, BANK) == 0  # the bank lists them again; they are booked already


async def test_payments_for_unknown_charges_do_not_stop_the_reconciler(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await registered_charge(context, account)
    await pay(bank, charge_id)
    await context.pool.execute(
        "INSERT INTO simulated_pix (world, end_to_end_id, txid, amount_cents, paid_at, payer_name, payer_document)"
        " VALUES ('production', $1, $2, 100, now(), 'X', '00000000191'),"
        " ('production', $3, 'DEOUTRO', 100, now(), 'X', '1')",
        f"E{new_id().hex[:31]}", new_id().hex, f"E{new_id().hex[:31]}",
    )  # fmt: skip
    context.now = lambda: utc_now() + timedelta(seconds=1)
    await reconcile_all(context)
    assert await status_of(context.pool, charge_id) == "paid"


async def test_the_simulated_bank_repeats_a_callback_until_it_is_accepted(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    heard: list[Any] = []
    twice = asyncio.Event()

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        heard.append(msgspec.json.decode(body))
        async with transaction(context.pool) as conn:
            await store_hints(conn, pix_hints(body), bank=BANK, now=utc_now())
        if len(heard) == 1:
            return web.Response(status=500)  # the hint is stored, but the bank gets an error
        twice.set()
        return web.Response()

    app = web.Application()
    app.router.add_post("/bank/local/pix", receive)
    async with listening(app) as url:
        context.settings = msgspec.structs.replace(context.settings, base_url=url)
        charge_id = await registered_charge(context, account)
        (payment,) = await pay(bank, charge_id)
        async with asyncio.timeout(30):
            await twice.wait()
        await drain_pix_hints(context)
        assert len(await payments_of(context.pool, charge_id)) == 1
        assert heard[0] == heard[1]
        (item,) = heard[0]["pix"]
        assert (item["endToEndId"], item["txid"], item["valor"]) == (
            payment["end_to_end_id"],
            charge_id.hex,
            "12.34",
        )
        assert item["chave"] == str(account)
        await asyncio.sleep(0.7)
        assert len(heard) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{}", b'{"pix":null}', b'{"pix":{}}', b'{"pix":[1,null,[],{}]}', b"\xff", b'"pix"',
        b'{"pix":[{"txid":"BOLETO00031285570000030000DATA17012022","endToEndId":"E1"}]}', b"[" * 200_000,
        b'{"pix":[{"txid":17,"endToEndId":"E1"},{"txid":null},{"endToEndId":"E1"}]}',
        b'{"pix":[{"txid":"' + b"g" * 32 + b'","endToEndId":"E1"}]}',
    ],
)  # fmt: skip
async def test_unreadable_callbacks_are_ignored(conn: Any, body: bytes) -> None:
    assert await store_hints(conn, pix_hints(body), bank=BANK, now=utc_now()) == 0


async def test_callbacks_about_unknown_charges_are_counted_and_not_stored(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    """A stranger who knows the callback address can neither fill the table nor cause needless calls to the bank. The
    reconciler finds real payments to unknown txids and puts them into suspense for staff."""
    ours = await registered_charge(context, account)
    (of_test,) = await make_charges(context.pool, account, [Location(1, f"bank.example.com/{new_id().hex}")], test=True)
    invented = new_id().hex
    before = REGISTRY.get_sample_value("bank_hints_unknown_total", {"bank": BANK}) or 0.0

    def about(txid: str) -> dict[str, str]:
        return {"end_to_end_id": f"E{new_id().hex[:31]}", "txid": txid}

    assert await hint(context, about(invented), about(of_test.hex), about(ours.hex)) == 1
    numbers = b'[{"id": "00031285579999999999"}, {"id": "00031285570000000000"}]'
    async with transaction(context.pool) as conn:
        assert await store_hints(conn, boleto_hints(numbers), bank=BANK, now=utc_now()) == 0
        assert (
            await store_hints(
                conn, pix_hints(b'{"pix": [{"txid": "%s"}]}' % ours.hex.encode()), bank="336", now=utc_now()
            )
            == 0
        )
    assert REGISTRY.get_sample_value("bank_hints_unknown_total", {"bank": BANK}) == before + 4
    kept = "SELECT count(*) FROM bank_hint WHERE txid = ANY($1::text[])"
    assert await context.pool.fetchval(kept, [invented, of_test.hex]) == 0

    source = f"E{new_id().hex[:31]}"
    await context.pool.execute(
        "INSERT INTO simulated_pix (world, end_to_end_id, txid, amount_cents, paid_at, payer_name, payer_document)"
        " VALUES ('production', $1, $2, 4321, now(), 'X', '00000000191')",
        source, invented,
    )  # fmt: skip
    assert await hint(context, {"end_to_end_id": source, "txid": invented}) == 0
    context.now = lambda: utc_now() + timedelta(seconds=1)
    await reconcile(context, BANK)
    assert await context.pool.fetchval("SELECT amount_cents FROM suspense WHERE source = $1", source) == 4321


async def test_a_callback_with_odd_fields_is_still_read(conn: Any, context: Context, account: UUID) -> None:
    txid = (await registered_charge(context, account)).hex
    items = [
        {"txid": f"{txid} ", "endToEndId": f"E{txid[:31]}", "devolucoes": [{"id": "x"}], "chave": None},
        {"txid": txid, "endToEndId": "with blanks"},
        {"txid": txid, "endToEndId": 7},
    ]
    assert (
        await store_hints(conn, pix_hints(msgspec.json.encode({"pix": items, "more": 1})), bank=BANK, now=utc_now())
        == 2
    )
    rows = await conn.fetch("SELECT about, txid FROM bank_hint WHERE txid = $1 ORDER BY about", txid)
    assert [tuple(row) for row in rows] == [(f"E{txid[:31]}", txid), (f"txid:{txid}", txid)]


async def test_a_later_callback_about_a_booked_payment_books_what_the_bank_took_back(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await registered_charge(context, account)
    (payment,) = await pay(bank, charge_id)
    assert await hint(context, payment) == 1
    await drain_pix_hints(context)
    assert (await bank.control("take-back", end_to_end_id=payment["end_to_end_id"], amount="2.34"))[0] == 200
    for _ in range(2):
        assert await hint(context, payment) == 1
        await drain_pix_hints(context)
    rows = await context.pool.fetch(
        "SELECT type, amount_cents FROM read_ledger WHERE charge_id = $1 ORDER BY sequence", charge_id
    )
    assert [tuple(row) for row in rows] == [("payment", 1234), ("adjustment", -234)]
