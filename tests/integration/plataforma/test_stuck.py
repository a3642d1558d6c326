"""What does not go on by itself, over all merchants: staff see it and try it again, and each retry is audited."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest_asyncio

from domain.brazilian import brl
from readmodels.money.anomalies import count_anomalies_everywhere
from runtime.ids import new_id
from runtime.postgres import Pool, session
from runtime.seal import Seal
from tests.support.dashboard import Books, Person, a_merchant, owner_in_browser, settings_with, staff_in_browser
from tests.support.pages import serving
from tests.support.webhooks import Merchant, create_merchant_with_endpoint, record_events

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")
PATH = "/plataforma/pendencias"
NOWHERE = "https://receiver.example.com/hook"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def staff(pool: Pool, address: str) -> AsyncIterator[Person]:
    async with staff_in_browser(pool, address) as person:
        yield person


async def insert_order(
    pool: Pool,
    account_id: UUID,
    *,
    kind: str = "refund_return",
    age: timedelta = timedelta(hours=30),
    state: str = "waiting",
    test: bool = False,
    attempts: int = 9,
    due_in: timedelta = timedelta(hours=1),
) -> UUID:
    """A bank order, due in an hour. A worker holds it for `due_in`, which may be over, if its state is working."""
    order_id, now = new_id(), datetime.now(UTC)
    await pool.execute(
        "INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, state, attempts, due_at,"
        " lease_until, outcome, created_at)"
        " VALUES ($1, $2, $3, $4, '001', $5, '{}', $6, $10, $7, $8, '{\"detail\": \"no answer\"}', $9)",
        order_id, account_id, new_id(), test, kind, state, now + due_in,
        now + due_in if state == "working" else None, now - age, attempts,
    )  # fmt: skip
    return order_id


async def insert_withdrawal(pool: Pool, account_id: UUID, status: str) -> UUID:
    order_id = await insert_order(pool, account_id, kind="withdrawal_send")
    await pool.execute(
        "INSERT INTO withdrawal (account_id, withdrawal_id, status, version, amount_cents, created_at)"
        " VALUES ($1, $2, $3, 1, 100, now())",
        account_id, order_id, status,
    )  # fmt: skip
    return order_id


def retry_path(order_id: UUID) -> str:
    return f"{PATH}/pedidos/{order_id}/tentar"


async def test_a_stuck_bank_order_is_listed_and_a_retry_makes_it_due_at_once(
    pool: Pool, table_owner: Pool, staff: Person
) -> None:
    merchant = await a_merchant(pool, "Loja do Pedido Parado")
    blocked, over = await a_merchant(pool), timedelta(hours=-30)
    await pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", blocked.account_id)
    stuck = await insert_order(pool, merchant.account_id)
    also_stuck = [
        await insert_order(pool, merchant.account_id, attempts=0, due_in=over),
        await insert_order(pool, merchant.account_id, state="working", due_in=over),
        await insert_withdrawal(pool, merchant.account_id, "pending"),
        await insert_withdrawal(pool, blocked.account_id, "processing"),
    ]
    waiting = [
        await insert_order(pool, merchant.account_id, attempts=0),
        await insert_order(pool, merchant.account_id, state="working", test=True, due_in=over),
        await insert_withdrawal(pool, blocked.account_id, "pending"),
    ]
    others = [
        await insert_order(pool, merchant.account_id, age=timedelta(minutes=1)),
        await insert_order(pool, merchant.account_id, test=True),
        await insert_order(pool, merchant.account_id, state="working"),
        # A withdrawal without an attempt may still be cancelled; a retry must not send it early.
        await insert_order(pool, merchant.account_id, kind="withdrawal_send", attempts=0),
    ]
    try:
        page = await staff.opened(PATH)
        assert "Loja do Pedido Parado Devolução de um Pix" in page.text
        assert "no answer" in page.text
        assert page.html.count(retry_path(stuck)) == 1
        assert all(str(each) in page.html for each in also_stuck)
        assert not any(str(each) in page.html for each in (*waiting, *others))
        before = await pool.fetchrow("SELECT * FROM bank_order WHERE order_id = $1", stuck)
        done = await staff.post(retry_path(stuck), form=page)
        assert (done.status, done.where) == (303, f"{PATH}?feito=pedido-tentado")
        after = await pool.fetchrow("SELECT * FROM bank_order WHERE order_id = $1", stuck)
        assert before is not None
        assert after is not None
        assert after["due_at"] <= datetime.now(UTC)
        assert {**after, "due_at": None} == {**before, "due_at": None}
        assert "Tentou de novo um pedido ao banco" in await staff.audit_log()
        for each in (*others[1:], new_id()):
            refused = await staff.post(retry_path(each), on=PATH)
            assert (refused.status, "terminou, ou está sendo feito" in refused.text) == (400, True)
            assert not await pool.fetchval("SELECT count(*) FROM audit WHERE subject = $1", str(each))
    finally:
        made = [stuck, *also_stuck, *waiting, *others]
        await pool.execute("DELETE FROM bank_order WHERE order_id = ANY($1)", made)
        await table_owner.execute("DELETE FROM withdrawal WHERE withdrawal_id = ANY($1)", made)


async def test_a_bank_order_that_the_bank_refused_is_listed_without_a_retry_however_many_ended_since(
    pool: Pool, table_owner: Pool, staff: Person
) -> None:
    order_id, now = new_id(), datetime.now(UTC)
    merchant = await a_merchant(pool, f"Loja do Pedido Recusado {order_id}")
    for each, test, state in ((order_id, False, "refused"), (new_id(), True, "refused"), (new_id(), False, "done")):
        await pool.execute(
            "INSERT INTO bank_order_done (order_id, account_id, charge_id, test, bank, kind, state, attempts,"
            " created_at, ended_at) VALUES ($1, $2, $3, $4, '001', 'refund_transfer', $5, 2, $6, $6)",
            each, merchant.account_id, new_id(), test, state, now,
        )  # fmt: skip
    # Half a minute of a busy installation.
    later_ids = [new_id() for _ in range(6_000)]
    await pool.execute(
        "INSERT INTO bank_order_done (order_id, account_id, test, bank, kind, state, attempts, created_at, ended_at)"
        " SELECT id, $2, false, '001', 'cob_register', 'done', 1, $3, $3 FROM unnest($1::uuid[]) AS id",
        later_ids, merchant.account_id, now,
    )  # fmt: skip
    page = await staff.opened(PATH)
    await table_owner.execute("DELETE FROM bank_order_done WHERE order_id = ANY($1)", later_ids)
    assert page.text.count(f"Loja do Pedido Recusado {order_id} Devolução por transferência") == 1
    assert "recusado pelo banco 2 tentativas" in page.text
    assert retry_path(order_id) not in page.html


async def _merchant_with_webhook(pool: Pool, name: str) -> Merchant:
    merchant = await create_merchant_with_endpoint(pool, NOWHERE)
    await pool.execute("UPDATE account SET name = $2 WHERE account_id = $1", merchant.account_id, name)
    return merchant


async def test_a_delivery_that_stopped_workers_can_be_sent_again_and_both_audit_logs_say_so(
    pool: Pool, staff: Person, address: str
) -> None:
    owned = await a_merchant(pool)
    merchant = await _merchant_with_webhook(pool, "Loja da Entrega Parada")
    for test in (False, True):
        await record_events(pool, merchant, test=test)
    await pool.execute(
        "UPDATE webhook_delivery SET state = 'stuck', attempt = 5, losses = 5 WHERE account_id = $1",
        merchant.account_id,
    )
    delivery_id, tried_id = await pool.fetchval(
        "SELECT array_agg(delivery_id ORDER BY test) FROM webhook_delivery WHERE account_id = $1", merchant.account_id
    )
    page = await staff.opened(PATH)
    again = f"/plataforma/lojas/{merchant.account_id}/webhook/entregas/{delivery_id}/reenviar"
    assert "Loja da Entrega Parada Pagamento recebido" in page.text
    assert (page.html.count(again), str(tried_id) in page.html) == (1, False)
    # Under another account it is not found, and nothing is audited.
    foreign = again.replace(str(merchant.account_id), str(owned.account_id))
    assert (await staff.post(foreign, form=page)).status == 400
    assert (await staff.post(again, on=PATH)).status == 303
    row = await pool.fetchrow("SELECT state, losses FROM webhook_delivery WHERE delivery_id = $1", delivery_id)
    assert tuple(row or ()) == ("pending", 0)
    assert again not in (await staff.opened(PATH)).html
    log = await pool.fetch(
        "SELECT email, action FROM audit WHERE subject = $1 ORDER BY email", str(merchant.account_id)
    )
    assert [tuple(each) for each in log] == [
        ("Plataforma", "webhook.redelivered"), (staff.email, "webhook.redelivered"),
    ]  # fmt: skip


async def test_staff_resume_a_merchants_deliveries_and_send_a_range_again(pool: Pool, staff: Person) -> None:
    merchant = await _merchant_with_webhook(pool, "Loja do Webhook Pausado")
    for test in (False, True):
        await record_events(pool, merchant, 3, test=test)
    await pool.execute(
        "UPDATE webhook_lane SET state = 'paused', paused_at = now(), paused_reason = 'no_success', holding = true"
        " FROM webhook_endpoint e WHERE e.endpoint_id = webhook_lane.endpoint_id AND e.account_id = $1 AND NOT test",
        merchant.account_id,
    )
    await pool.execute(
        "UPDATE webhook_delivery SET state = CASE WHEN test OR sequence = 1 THEN 'held' ELSE 'delivered' END"
        " WHERE account_id = $1",
        merchant.account_id,
    )
    one = f"/plataforma/lojas/{merchant.account_id}"
    assert re.search("Loja do Webhook Pausado Pausado .* 1 Retomar as entregas", (await staff.opened(PATH)).text)
    page = await staff.opened(one)
    assert f"{one}/webhook/retomar" in page.html
    assert (await staff.post(f"{one}/webhook/retomar", form=page)).status == 303
    lane = "SELECT state FROM webhook_lane JOIN webhook_endpoint USING (endpoint_id) WHERE account_id = $1 AND NOT test"
    assert await pool.fetchval(lane, merchant.account_id) == "open"
    assert "Loja do Webhook Pausado" not in (await staff.opened(PATH)).text
    for first, last in (("x", "2"), ("", ""), ("3", "1"), ("1", "100000")):
        wrong = await staff.post(f"{one}/webhook/reenviar", on=one, from_sequence=first, to_sequence=last)
        assert wrong.status == 400, (first, last)
        assert f'value="{first}"' in wrong.html
    done = await staff.post(f"{one}/webhook/reenviar", on=one, from_sequence="2", to_sequence="3")
    assert done.status == 303
    states = await pool.fetch(
        "SELECT state FROM webhook_delivery WHERE account_id = $1 AND NOT test ORDER BY sequence", merchant.account_id
    )
    assert [each["state"] for each in states] == ["held", "pending", "pending"]
    bare = await a_merchant(pool)
    gone = await staff.post(f"/plataforma/lojas/{bare.account_id}/webhook/retomar", on=one)
    assert (gone.status, "não tem webhook" in gone.text) == (400, True)


async def test_open_production_anomalies_of_every_merchant_are_listed_until_resolved(
    pool: Pool, staff: Person, address: str
) -> None:
    async def counted() -> int:
        async with session(pool) as conn:
            return await count_anomalies_everywhere(conn)

    before = await counted()
    first, second = await a_merchant(pool, "Loja da Duplicidade"), await a_merchant(pool)
    path = "/plataforma/divergencias"
    for merchant, cents, test in ((first, 33_11, False), (second, 44_00, True)):
        books = Books(pool, merchant.account_id, Seal(SETTINGS.secret_key))
        await books.paid(await books.charge(cents, test=test), cents, cents)
    assert await counted() == before + 1
    page = await staff.opened(path)
    assert "Loja da Duplicidade" in page.text
    assert "Pago em duplicidade" in page.text
    assert brl(33_11) in page.text
    assert brl(44_00) not in page.text
    assert "Fulana" not in page.text  # the payer that the payments name
    assert "12345678909" not in page.html
    payment_id = await pool.fetchval(
        "SELECT payment_id FROM payment WHERE account_id = $1 AND anomaly IS NOT NULL AND NOT test", first.account_id
    )
    async with owner_in_browser(address, first) as owner:
        anomaly = f"/painel/pagamentos/{payment_id}/divergencia"
        assert (await owner.post(f"{anomaly}", on=anomaly, note="combinado")).status == 303
    assert "Loja da Duplicidade" not in (await staff.opened(path)).text
    assert await counted() == before
