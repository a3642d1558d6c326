"""The bank's list of paid boletos is read to its end; money paid into unknown boletos is kept in suspense."""

import asyncio
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace
from structlog.testing import capture_logs

from banks.banco_do_brasil.transport import Heard
from banks.boletos import NewBoleto
from banks.protocol import Done, Unknown
from banks.received import PixReturn, ReceivedPix
from commands.money.suspense import assign_suspense
from domain.merchants.fees import NO_FEES
from domain.mode import Mode
from readmodels.verify import verify
from runtime.ids import new_id
from runtime.postgres import Pool, open_pool, transaction
from tests.support.banking import BANK, make_account, make_charges, status_of, utc_now, worker_context
from tests.support.boleto_bank import RunningBoletoBank, new_boleto, new_number, running_boleto_bank
from tests.support.database import own_database
from tests.support.orders import end_orders
from tests.support.wallet import balance_of
from workers.context import Context
from workers.incoming import passes
from workers.incoming.pix_payments import book_pix
from workers.incoming.reconciler import reconcile_boletos
from workers.orders.pix import PixOrderWorker


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def url(servers: Any) -> AsyncIterator[str]:
    async with own_database(servers, "boleto_reconciler") as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def books(url: str) -> AsyncIterator[Pool]:
    pool = await open_pool(url, name="tests", size=8)
    yield pool
    await pool.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(books: Pool) -> AsyncIterator[RunningBoletoBank]:
    async with running_boleto_bank(books) as running:
        await running.rules(settle_after_s=0)
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def context(books: Pool, servers: Any, bank: RunningBoletoBank) -> AsyncIterator[Context]:
    await books.execute("DELETE FROM bank_reconciled")
    await books.execute("DELETE FROM lease")
    async with worker_context(books, servers.redis_url, bank.adapter()) as made:
        made.now = lambda: utc_now() + timedelta(seconds=2)
        yield made


async def pay_foreign_boleto(bank: RunningBoletoBank) -> NewBoleto:
    """Register a boleto as another program of the agreement would, and pay it."""
    boleto = new_boleto()
    assert isinstance(await bank.adapter().boletos.register_boleto(boleto), Done)
    await bank.books.pay(boleto.number, rail="boleto", tell=False)
    return boleto


async def reconcile_until_idle(context: Context) -> None:
    for _ in range(100):
        if not await reconcile_boletos(context, BANK):
            return
    raise AssertionError("the reconciler does not come to an end")


async def suspense_of(context: Context, number: str) -> list[Any]:
    return list(await context.pool.fetch("SELECT * FROM suspense WHERE reference = $1 ORDER BY found_at", number))


async def test_each_payment_of_an_unknown_boleto_is_in_suspense_once(
    context: Context, bank: RunningBoletoBank, url: str
) -> None:
    boleto = await pay_foreign_boleto(bank)
    for _ in range(2):
        await reconcile_until_idle(context)
    (row,) = await suspense_of(context, boleto.number)
    assert (row["kind"], row["source"], row["amount_cents"]) == ("boleto_unknown", f"{boleto.number}/12345", 12345)
    # Paid again: the bank reports the total, and only the difference is new.
    await bank.books.pay(boleto.number, rail="boleto", amount_cents=100, force=True, tell=False)
    for _ in range(2):
        await reconcile_until_idle(context)
    assert [row["amount_cents"] for row in await suspense_of(context, boleto.number)] == [12345, 100]
    account = await make_account(context.pool)
    made = await context.banks.production[BANK].pix.create_locations(1)
    assert isinstance(made, Done)
    (charge_id,) = await make_charges(context.pool, account, made.value, test=False, amount_cents=12345)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    async with transaction(context.pool) as conn:
        await assign_suspense(
            conn,
            row["suspense_id"],
            charge_id,
            by="a@b.c",
            note=None,
            now=context.now(),
            seal=context.seal,
            fees=NO_FEES,
        )
    assert await status_of(context.pool, charge_id) == "paid"
    payment = await context.pool.fetchrow("SELECT source, method FROM payment WHERE charge_id = $1", charge_id)
    assert payment is not None
    assert tuple(payment) == (f"{boleto.number}/12345", "boleto")
    await reconcile_until_idle(context)
    assert await verify(url) == []


async def test_suspended_money_of_an_unknown_boleto_is_settled_once_the_whole_of_it_was_returned(
    context: Context, bank: RunningBoletoBank, url: str
) -> None:
    """The bank tells how much was paid into a boleto and how much was returned, not which PIX paid which part: while
    some of the money may still be here, a person decides."""
    boleto = await pay_foreign_boleto(bank)
    await reconcile_until_idle(context)
    await bank.books.pay(boleto.number, rail="boleto", amount_cents=100, force=True, tell=False)
    await reconcile_until_idle(context)
    paid = [returned(boleto.number, 12345, "MED1", "MED2"), returned(boleto.number, 100, "MED3")]
    await book_pix(context, BANK, [replace(paid[0], returned=paid[0].returned[:1])])
    await book_pix(context, BANK, paid[:1])
    assert [row["state"] for row in await suspense_of(context, boleto.number)] == ["open", "open"]
    for _ in range(2):
        await book_pix(context, BANK, paid)
    rows = await suspense_of(context, boleto.number)
    assert [(row["state"], row["return_reference"], row["settled_by"]) for row in rows] == [
        ("returned", "MED3", "bank")
    ] * 2
    await reconcile_until_idle(context)
    assert len(await suspense_of(context, boleto.number)) == 2
    assert await verify(url) == []


async def test_returns_of_an_unknown_boleto_are_debited_from_the_accounts_staff_assigned_it_to(
    context: Context, bank: RunningBoletoBank, url: str
) -> None:
    """Each return is booked once, though the bank does not tell to which of the boleto's payments it belongs."""
    boleto, accounts = await pay_foreign_boleto(bank), [await make_account(context.pool) for _ in range(2)]
    await reconcile_until_idle(context)
    await bank.books.pay(boleto.number, rail="boleto", force=True, tell=False)
    await reconcile_until_idle(context)
    made = await context.banks.production[BANK].pix.create_locations(2)
    assert isinstance(made, Done)
    rows = await suspense_of(context, boleto.number)
    for row, account, location in zip(rows, accounts, made.value, strict=True):
        (charge_id,) = await make_charges(context.pool, account, [location], test=False, amount_cents=12345)
        await end_orders(context.pool, [charge_id])
        async with transaction(context.pool) as conn:
            await assign_suspense(
                conn, row["suspense_id"], charge_id, by="a@b.c", note=None, now=context.now(), seal=context.seal,
                fees=NO_FEES,
            )  # fmt: skip
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    paid = [
        replace(returned(boleto.number, 12345, *ids), paid_at=utc_now() - timedelta(hours=1))
        for ids in (("MED1",), ("MED2", "MED3"))
    ]
    for told in (paid, paid[:1], paid, paid):
        await book_pix(context, BANK, told)
        assert min([await balance_of(context.pool, account) for account in accounts]) >= 0
    assert [await balance_of(context.pool, account) for account in accounts] == [0, 0]
    assert await verify(url) == []


def returned(number: str, cents: int, *ids: str) -> ReceivedPix:
    """A PIX that paid a boleto and was returned in as many parts as there are ids."""
    parts = [cents // len(ids) + (cents % len(ids) if index == 0 else 0) for index in range(len(ids))]
    back = tuple(PixReturn(id=id, return_id=None, amount_cents=each) for id, each in zip(ids, parts, strict=True))
    return ReceivedPix(
        end_to_end_id=f"E{new_id().hex[:31]}", txid=f"BOLETO{number}", amount_cents=cents, paid_at=utc_now(),
        boleto_number=number, returned=back,
    )  # fmt: skip


async def test_an_unreadable_boleto_in_the_banks_list_does_not_stop_the_others(
    context: Context, bank: RunningBoletoBank
) -> None:
    odd, whole = await pay_foreign_boleto(bank), await pay_foreign_boleto(bank)
    await context.pool.execute("UPDATE simulated_boleto SET garbled = true WHERE number = $1", odd.number)
    await reconcile_until_idle(context)
    assert len(await suspense_of(context, whole.number)) == 1
    assert await suspense_of(context, odd.number) == []
    rows = await context.pool.fetch("SELECT method, about FROM bank_unreadable")
    assert [tuple(row) for row in rows] == [("boleto", odd.number)]
    await context.pool.execute("UPDATE simulated_boleto SET garbled = false WHERE number = $1", odd.number)
    await reconcile_until_idle(context)
    assert len(await suspense_of(context, odd.number)) == 1
    assert await context.pool.fetchval("SELECT count(*) FROM bank_unreadable") == 0


async def test_a_nosso_numero_that_cannot_be_stored_does_not_stop_the_others(
    context: Context, bank: RunningBoletoBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd, whole = await pay_foreign_boleto(bank), await pay_foreign_boleto(bank)
    transport = context.banks.production[BANK].boletos._transport  # type: ignore[attr-defined]
    ask = transport.ask

    async def oddly(*given: Any, **more: Any) -> Any:
        heard = await ask(*given, **more)
        return Heard(heard.status, heard.body.replace(odd.number[10:].encode(), b"\\u0000"))

    monkeypatch.setattr(transport, "ask", oddly)
    await reconcile_until_idle(context)
    assert len(await suspense_of(context, whole.number)) == 1
    assert await context.pool.fetchval("SELECT count(*) FROM bank_unreadable") == 1
    await context.pool.execute("DELETE FROM bank_unreadable")


async def store_paid_boletos(context: Context, count: int) -> list[str]:
    numbers = [new_number() for _ in range(count)]
    day = context.now()
    await context.pool.execute(
        "INSERT INTO simulated_boleto (world, number, seu_numero, amount_cents, issued_on, due_on, payer_sealed,"
        " registered_at, payments, moved_at) SELECT 'production', n, 'A', 500, $2::date, $2::date + 1, '', $3, 1, $3"
        " FROM unnest($1::text[]) n",
        numbers, day.date(), day - timedelta(seconds=5),
    )  # fmt: skip
    await context.pool.execute(
        "INSERT INTO simulated_boleto_payment (world, number, rail, amount_cents, paid_at, settles_at, payer_name,"
        " payer_document) SELECT 'production', n, 'boleto', 500, $2, $2, '', '' FROM unnest($1::text[]) n",
        numbers, day - timedelta(seconds=5),
    )  # fmt: skip
    return numbers


async def test_a_reconciler_pass_resumes_at_the_page_where_the_last_pass_died(
    context: Context, bank: RunningBoletoBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = await store_paid_boletos(context, 650)
    boletos = context.banks.production[BANK].boletos
    ask, asked = boletos.paid_page, list[str | None]()

    async def dies(since: date, until: date, after: str | None = None) -> Any:
        asked.append(after)
        if after is not None:
            raise ConnectionError
        return await ask(since, until, after)

    monkeypatch.setattr(boletos, "paid_page", dies)
    with pytest.raises(ConnectionError):
        await reconcile_boletos(context, BANK)
    assert set(asked) == {None, "N:300", "N:600"}
    asked.clear()

    async def lives(since: date, until: date, after: str | None = None) -> Any:
        asked.append(after)
        return await ask(since, until, after)

    monkeypatch.setattr(boletos, "paid_page", lives)
    await reconcile_until_idle(context)
    assert asked[0] == "N:300"
    assert await context.pool.fetchval("SELECT count(*) FROM suspense WHERE reference = ANY($1)", numbers) == 650


async def test_a_boleto_that_the_bank_lists_as_paid_and_does_not_show_is_told_days_after(
    context: Context, bank: RunningBoletoBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nightly pass asks for it for a week; then its money would be missed without a word."""
    await reconcile_until_idle(context)
    (number,) = await store_paid_boletos(context, 1)
    account_id, charge_id = await make_account(context.pool), new_id()
    await context.pool.execute(
        "INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents,"
        " created_at, expires_at) VALUES ($1, $2, false, $3, 'boleto', 'pending', 1, 500, now(), now() + '9 days')",
        account_id, charge_id, BANK,
    )  # fmt: skip
    await context.pool.execute(
        "INSERT INTO boleto (account_id, charge_id, bank, number, due_on, registered_at, booked_cents)"
        " VALUES ($1, $2, $3, $4, current_date, now(), 0)", account_id, charge_id, BANK, number,
    )  # fmt: skip

    async def silent(number: str) -> Unknown:
        return Unknown("HTTP 500")

    monkeypatch.setattr(context.banks.production[BANK].boletos, "find_boleto", silent)
    with capture_logs() as logs:
        await reconcile_until_idle(context)
        assert logs == [], "the bank may show it later"
        at = utc_now() + timedelta(days=2, hours=4)
        context.now = lambda: at
        await reconcile_until_idle(context)
    told = next(each for each in logs if each["event"] == "listed_boletos_not_booked")
    assert (told["log_level"], told["count"], told["first"]) == ("error", 1, number)


async def test_a_list_without_an_end_is_told_and_keeps_no_other_pass_waiting(
    context: Context, bank: RunningBoletoBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is passed over: once the bank's list ends again, the interval is read from its beginning."""
    numbers = await store_paid_boletos(context, 650)
    transport = context.banks.production[BANK].boletos._transport  # type: ignore[attr-defined]

    async def endless(*given: Any, query: Any, **more: Any) -> Any:
        following = int(query["indice"]) + 300
        return Heard(
            200, msgspec.json.encode({"boletos": [], "indicadorContinuidade": "S", "proximoIndice": following})
        )

    monkeypatch.setattr(transport, "ask", endless)
    monkeypatch.setattr(passes, "ENDLESS_PAGES", 4)
    with capture_logs() as logs:
        async with asyncio.timeout(60):
            assert await reconcile_boletos(context, BANK) == 0
    told = [(each["event"], each["log_level"]) for each in logs]
    assert told == [("reconciler_list_endless", "error")] * 2, "of the new and of the nightly pass"
    rows = await context.pool.fetch("SELECT window_until > until AS unread, after FROM bank_reconciled")
    assert [tuple(row) for row in rows] == [(True, None)] * 2
    monkeypatch.undo()
    await reconcile_until_idle(context)
    assert await context.pool.fetchval("SELECT count(*) FROM suspense WHERE reference = ANY($1)", numbers) == 650


async def test_pages_of_the_banks_list_are_fetched_ahead_concurrently_and_booked_in_order(
    context: Context, bank: RunningBoletoBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bank names only the next page. As many pages are guessed as were read, so that no more than that lie beyond
    the end; a guessed page that does not exist is not booked."""
    await reconcile_until_idle(context)
    numbers = await store_paid_boletos(context, 1_501)
    boletos = context.banks.production[BANK].boletos
    ask = boletos.paid_page
    asked: list[str] = []
    under_way = at_once = 0
    enough = asyncio.Event()

    async def slow(since: date, until: date, after: str | None = None) -> Any:
        nonlocal under_way, at_once
        asked.append(after or "N:0")
        under_way += 1
        at_once = max(at_once, under_way)
        if at_once == context.settings.pace.bank_list_pages:
            enough.set()
        if after in ("N:900", "N:1200"):  # once the page before them is read, as many may be asked for
            async with asyncio.timeout(30):
                await enough.wait()
        try:
            return await ask(since, until, after)
        finally:
            under_way -= 1

    stored: list[str | None] = []
    store = passes.set_progress

    async def storing(*args: Any, **more: Any) -> Any:
        if more["pass_name"] == "new":
            stored.append(more["after"])
        return await store(*args, **more)

    monkeypatch.setattr(passes, "set_progress", storing)
    monkeypatch.setattr(boletos, "paid_page", slow)
    await context.pool.execute("DELETE FROM bank_reconciled")
    await reconcile_until_idle(context)
    assert at_once == context.settings.pace.bank_list_pages == 4
    pages = [int(after[2:]) for after in stored if after is not None and after.startswith("N:")]
    assert pages == list(range(300, pages[-1] + 1, 300)), "every page is booked, in order"
    assert pages[-1] >= 1_500
    beyond = [after for after in asked if after.startswith("N:") and int(after[2:]) > pages[-1]]
    assert len(beyond) <= context.settings.pace.bank_list_pages * 2
    assert await context.pool.fetchval("SELECT count(*) FROM suspense WHERE reference = ANY($1)", numbers) == 1_501
