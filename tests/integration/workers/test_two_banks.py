"""Two production banks: each carries its own charges, and is called about those only."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from msgspec import structs

from banks.banco_do_brasil.callbacks import pix_hints
from banks.choice import BANKS, agreement_of, open_banks
from banks.protocol import Done
from commands.bank_orders.callback import store_hints
from commands.bank_orders.pix_locations import take_blocks, take_one
from commands.charges.cancel import cancellation
from commands.charges.change import change_charges
from domain.charge import CancelReason
from domain.mode import Mode, Owner
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from tests.support.banking import (
    BANK,
    SECRET_KEY,
    RunningBank,
    make_account,
    make_charges,
    order_of,
    running_bank,
    settings_for,
    utc_now,
    worker_context,
)
from workers.context import Context
from workers.incoming.hints import drain_pix_hints
from workers.incoming.reconciler import reconcile, reconcile_boletos
from workers.orders.pix import PixOrderWorker

OTHER = "999"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def banks(pool: Pool) -> AsyncIterator[dict[str, RunningBank]]:
    async with AsyncExitStack() as opened:
        yield {code: await opened.enter_async_context(running_bank(pool)) for code in (BANK, OTHER)}


@pytest_asyncio.fixture(loop_scope="session")
async def context(pool: Pool, servers: Any, banks: dict[str, RunningBank]) -> AsyncIterator[Context]:
    async with worker_context(pool, servers.redis_url, banks[BANK].adapter()) as made:
        made.banks.production[OTHER] = banks[OTHER].adapter()
        await pool.execute("DELETE FROM bank_reconciled WHERE bank = $1", OTHER)
        for bank in banks.values():
            bank.requests.clear()
        yield made


def requests_to(bank: RunningBank, path: str) -> int:
    return sum(path in request for request in bank.requests)


@pytest.mark.parametrize(("code", "another"), [(BANK, OTHER), (OTHER, BANK)])
async def test_a_charge_is_registered_looked_up_and_removed_only_at_the_bank_that_carries_it(
    context: Context, banks: dict[str, RunningBank], code: str, another: str
) -> None:
    made = await context.banks.production[code].pix.create_locations(1)
    assert isinstance(made, Done)
    account = await make_account(context.pool)
    (charge_id,) = await make_charges(context.pool, account, made.value, test=False, bank=code)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert (await order_of(context.pool, charge_id))["bank"] == code
    assert requests_to(banks[code], f"PUT /pix/v2/cob/{charge_id.hex}") == 1
    assert requests_to(banks[code], f"PUT /pix/v2/webhook/{account}") == 1
    await _store_callback(context, code, charge_id)
    await drain_pix_hints(context)
    assert requests_to(banks[code], f"GET /pix/v2/cob/{charge_id.hex}") == 1
    change = cancellation(
        charge_id, Owner.of(account, False), reason=CancelReason.CANCELLED, actor="test", request_id=None
    )
    async with transaction(context.pool) as conn:
        await change_charges(conn, [change], now=utc_now())
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert requests_to(banks[code], f"PATCH /pix/v2/cob/{charge_id.hex}") == 1
    assert requests_to(banks[another], charge_id.hex) == requests_to(banks[another], "webhook") == 0


async def _store_callback(context: Context, code: str, charge_id: UUID) -> None:
    body = b'{"pix": [{"endToEndId": "E%s", "txid": "%s"}]}' % (new_id().hex[:31].encode(), charge_id.hex.encode())
    async with transaction(context.pool) as conn:
        assert await store_hints(conn, pix_hints(body), bank=code, now=utc_now()) == 1


async def test_a_silent_bank_does_not_block_the_callback_registration_at_another(
    context: Context, banks: dict[str, RunningBank]
) -> None:
    """The other bank's order is taken up while the silent bank is called."""
    pace = structs.replace(context.settings.pace, orders_claimed=1)
    context.settings = structs.replace(context.settings, pace=pace)
    made = await context.banks.production[BANK].pix.create_locations(2)
    assert isinstance(made, Done)
    account = await make_account(context.pool)
    for code, location in zip((BANK, OTHER), made.value, strict=True):
        await make_charges(context.pool, account, [location], test=False, bank=code)
    context.banks.production[BANK] = banks[BANK].adapter(write_s=0.3)
    banks[BANK].wire.fault = "timeout_before"
    try:
        await PixOrderWorker(context, Mode.PRODUCTION).drain()
    finally:
        banks[BANK].wire.fault = "up"
    assert requests_to(banks[BANK], f"PUT /pix/v2/webhook/{account}") == 1
    known = "SELECT bank FROM bank_callback WHERE pix_key = $1"
    assert [row["bank"] for row in await context.pool.fetch(known, str(account))] == [OTHER]


async def test_reconciling_one_bank_calls_no_other(context: Context, banks: dict[str, RunningBank]) -> None:
    await reconcile(context, OTHER)
    await reconcile_boletos(context, OTHER)
    assert requests_to(banks[OTHER], "GET /pix/v2/pix") == 1
    assert banks[BANK].requests == []
    rows = await context.pool.fetch("SELECT method FROM bank_reconciled WHERE bank = $1", OTHER)
    assert "pix" in {row["method"] for row in rows}


async def test_a_charge_takes_a_location_of_the_bank_of_new_charges_only(context: Context) -> None:
    insert = "INSERT INTO pix_location (test, bank, location_ids, locations) VALUES ($1, $2, '{1}', ARRAY[$3])"
    async with context.pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await conn.execute("DELETE FROM pix_location")
        for test, code in ((True, BANK), (True, OTHER), (False, OTHER), (False, BANK), (False, BANK)):
            await conn.execute(insert, test, code, f"bank-{code}.example/1")
        (taken,) = await take_blocks(conn, test=False, bank=BANK, blocks=1, after=0)
        assert taken.bank == BANK, "the other bank's block was made before"
        single = await take_one(conn, test=False, bank=BANK)
        assert single is not None
        assert (single.bank, single.location) == (BANK, "bank-001.example/1")
        assert await take_one(conn, test=False, bank=BANK) is None
        (taken,) = await take_blocks(conn, test=False, bank=OTHER, blocks=1, after=0)
        assert (taken.bank, taken.location) == (OTHER, "bank-999.example/1")
        await transaction.rollback()


def test_an_unknown_bank_in_the_settings_is_refused_at_start() -> None:
    nothing: Any = None
    with pytest.raises(ValueError, match="BANKS names a bank that is not known here: 999"):
        open_banks(settings_for(BANKS="001,999"), nothing, nothing, Seal(bytes.fromhex(SECRET_KEY)))
    with pytest.raises(ValueError, match="BANKS must be codes"):
        settings_for(BANKS="1")


def test_the_agreement_of_each_bank_has_its_code() -> None:
    for code in BANKS:
        agreement = agreement_of(settings_for(), code)
        assert (agreement.bank, agreement.printed_bank_code[:3]) == (code, code)
