"""A page of a list reads index ranges only, and no more rows than the page needs, however long the list is.

The tests explain the statements and parameters that the lists use, over 40,000 rows, with a custom plan (made for the
given values) and with a generic plan (made once for all values).
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

import sql
from commands.charges.change import COMMANDS_MAX
from commands.charges.expire import (
    ClockAhead,
    find_clocks_ahead,
    find_overdue,
    find_overdue_ahead,
    find_overdue_of_account,
)
from commands.money.withdraw import take_daily
from domain.mode import Mode, Owner
from readmodels import spans
from readmodels.charges import newest_search
from readmodels.charges.charge import charges_by_id
from readmodels.charges.charge_list import (
    METHODS,
    STATUSES,
    ChargeFilters,
    charge_filter_parameters,
    charge_page,
    charge_sums,
    due_days,
)
from readmodels.charges.current_list import first_overdue, overdue_sum
from readmodels.charges.newest_search import newest_of_amount, newest_of_payer
from readmodels.charges.schedule import STATUSES as SCHEDULE_STATUSES
from readmodels.charges.schedule import ScheduleFilters, schedule_page
from readmodels.dashboard.charge import payments_of
from readmodels.dashboard.known_payer import search_payers_by_name
from readmodels.dashboard.overview import CLOSINGS_MAX, closings, received_by_day
from readmodels.money.ledger import ENTRY_TYPES, LedgerFilters, balance, ledger_page
from readmodels.money.payment_list import PaymentFilters, payment_page
from readmodels.money.refund_list import RefundFilters, refund_page
from readmodels.money.withdrawal import WithdrawalFilters, withdrawal_page
from readmodels.page import SequencePosition, SortOrder, TimePosition
from readmodels.webhooks.event_list import EventFilters, event_page
from runtime.postgres import Pool
from runtime.seal import Seal

BIG = UUID(int=1)
"""The account whose lists are read. It has as many rows as all other accounts together."""
OWNER = Owner(BIG, Mode.SANDBOX)
CHARGES = 20_000
SEED_S = 120.0
"""For a statement that inserts test data: some take seconds, and on a busy machine longer than a statement of the
service may take."""
LIMIT = 100
PAGE = LIMIT + 1
START = datetime(2026, 1, 1, tzinfo=UTC)
MIDDLE = START + timedelta(seconds=30 * CHARGES // 2)
SEAL = Seal(bytes(32))

# A row every 15 seconds; every second row belongs to BIG. Some values are rare, some are shared by many rows.
_SEED = (
    """
    CREATE TEMPORARY TABLE seed ON COMMIT DROP AS
    SELECT n, md5(n::text)::uuid AS id,
           CASE WHEN n % 2 = 0 THEN '00000000-0000-0000-0000-000000000001'::uuid
                ELSE md5('account' || n % 40)::uuid END AS account_id,
           timestamptz '2026-01-01 00:00Z' + n * interval '15 seconds' AS at,
           (ARRAY['pending', 'paid', 'paid', 'paid', 'expired'])[1 + n / 2 % 5] AS status,
           CASE WHEN n % 10 < 7 THEN 'pix' WHEN n % 10 < 9 THEN 'boleto' ELSE 'boleto_hibrido' END AS method
    FROM generate_series(1, 40000) AS n
    """,
    """
    INSERT INTO journal (journal_id, account_id, test, charge_id, version, kind, recorded_at, actor, payload)
    OVERRIDING SYSTEM VALUE
    SELECT -n, account_id, true, id, 1, 'charge.created', at, 'test', '{"charge": {}, "payment": {}}' FROM seed
    """,
    """
    INSERT INTO read_charge (account_id, charge_id, test, created_at, status, payment_method, amount_cents, public_id,
                             external_id, payer_document_hash, nosso_numero, txid, integrador_code, due_date, version,
                             journal_id)
    SELECT account_id, id, true, at, CASE WHEN n % 4000 = 0 THEN 'failed' ELSE status END, method, 1000, 'p' || n,
           CASE WHEN n % 20 = 0 THEN 'shared' ELSE 'order-' || n END, 'payer-' || n % 200,
           CASE WHEN method <> 'pix' THEN lpad(n::text, 17, '0') END, CASE WHEN method <> 'pix' THEN 'BOLETO' || n END,
           CASE WHEN n % 4 = 0 THEN 'INTG-AAAAAA' END,
           CASE WHEN method <> 'pix' THEN date '2026-02-01' + n % 60 END, 1, -n
    FROM seed
    """,
    """
    INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, created_at,
                        expires_at)
    SELECT account_id, id, true, '001', 'pix', status, 1, 1000, at, at + interval '1 day' FROM seed
    """,
    """
    INSERT INTO read_payment (account_id, test, paid_at, payment_id, charge_id, method, anomaly, external_id,
                              journal_id)
    SELECT account_id, true, at, id, id, CASE WHEN method = 'pix' THEN 'pix' ELSE 'boleto' END,
           CASE WHEN n % 100 = 0 THEN 'duplicate' END, CASE WHEN n % 20 = 0 THEN 'shared' ELSE 'order-' || n END, -n
    FROM seed
    """,
    """
    INSERT INTO read_refund (account_id, refund_id, test, created_at, status, charge_id, payment_id, paid_at,
                             external_id, doc)
    SELECT account_id, id, true, at, CASE WHEN n % 4000 = 0 THEN 'failed' WHEN n % 10 = 0 THEN 'pending'
                                          ELSE 'succeeded' END,
           id, id, at, CASE WHEN n % 20 = 0 THEN 'shared' ELSE 'order-' || n END, '{}'
    FROM seed
    """,
    """
    INSERT INTO read_withdrawal (account_id, withdrawal_id, created_at, status, external_id, doc)
    SELECT account_id, id, at, CASE WHEN n % 4000 = 0 THEN 'failed' WHEN n % 10 = 0 THEN 'cancelled'
                                    ELSE 'succeeded' END,
           CASE WHEN n % 20 = 0 THEN 'shared' ELSE 'order-' || n END, '{}'
    FROM seed
    """,
    """
    INSERT INTO read_event (account_id, test, sequence, event_id, type, charge_id, external_id, created_at, journal_id)
    SELECT account_id, true, row_number() OVER (PARTITION BY account_id ORDER BY n), id,
           CASE WHEN n % 4000 = 0 THEN 'charge.failed' WHEN n % 5 = 0 THEN 'charge.expired' ELSE 'payment.received' END,
           id, CASE WHEN n % 20 = 0 THEN 'shared' ELSE 'order-' || n END, at, -n
    FROM seed
    """,
    """
    INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents, created_at)
    SELECT account_id, true, row_number() OVER (PARTITION BY account_id ORDER BY n), id,
           CASE WHEN n % 4000 = 0 THEN 'adjustment' ELSE 'payment' END, 1, n, at
    FROM seed
    """,
    """
    INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)
    SELECT DISTINCT account_id, 'Loja', '12345678000190', 'Recife', 'approved', 'k', now() FROM seed
    """,
    """
    INSERT INTO schedule (account_id, schedule_id, status, created_at, payment_method, amount_cents, frequency,
                          first_due_date, issue_days_before, external_id, send_email, payer_sealed, look_at)
    SELECT account_id, id, CASE WHEN n % 4000 = 0 THEN 'paused' ELSE 'active' END, at, 'pix', 1000, 'monthly',
           '2026-06-10', 10,
           CASE WHEN n % 20 = 0 THEN 'shared' ELSE 'order-' || n END, false, '', at
    FROM seed
    """,
    "ANALYZE journal, read_charge, charge, read_payment, read_refund, read_withdrawal, read_event, read_ledger,"
    " schedule",
)

_KEY = 4
"""Blocks that one look-up by key touches: the path down the index, and the page of the table."""

_OF_ONE_ROW = ("report_position", "journal_journal_id_seq")

Node = dict[str, Any]


class Explained:
    """Replaces a connection: explains each statement, keeps its plan, and returns no rows."""

    def __init__(self, conn: Any, mode: str) -> None:
        self._conn = conn
        self._mode = mode
        self.plans: list[tuple[str, Node]] = []

    async def fetch(self, text: str, *given: Any) -> list[Any]:
        prepared = await self._conn.prepare(text)
        types = [f"{each.schema}.{each.name}" for each in prepared.get_parameters()]
        literals = [
            f"{await self._conn.fetchval(f'SELECT quote_nullable(($1::{kind})::text)', value)}::{kind}"
            for kind, value in zip(map(_quoted_type, types), given, strict=True)
        ]
        listed = f"({', '.join(literals)})" if literals else ""
        await self._conn.execute(f"SET LOCAL plan_cache_mode = {self._mode}")
        await self._conn.execute(f"PREPARE explained AS {text}")
        try:
            raw = await self._conn.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained{listed}")
        finally:
            await self._conn.execute("DEALLOCATE explained")
        (name,) = [name for name, statement in sql.STATEMENTS.items() if statement.text == text][:1]
        self.plans.append((name, msgspec.json.decode(raw)[0]["Plan"]))
        return []

    async def fetchrow(self, text: str, *given: Any) -> Any:
        await self.fetch(text, *given)
        return await self._conn.fetchrow(text, *given)


def _quoted_type(kind: str) -> str:
    schema, name = kind.split(".", 1)
    return f'{schema}."{name[:-2]}"[]' if name.endswith("[]") else f'{schema}."{name}"'


def _nodes(plan: Node) -> Iterator[Node]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


def assert_cheap(plans: Sequence[tuple[str, Node]], *, ranges: int = 1, page: int = PAGE) -> None:
    """Asserts that the plans use index scans only, and for each row of the page and each range read at most two rows
    (rows that a filter removes count as read) and sort at most one."""
    assert plans
    for name, plan in plans:
        nodes = [node for node in _nodes(plan) if node.get("Relation Name") not in _OF_ONE_ROW]
        kinds = {node["Node Type"] for node in nodes}
        shown = msgspec.json.format(msgspec.json.encode(plan)).decode()
        assert not kinds & {"Seq Scan", "Bitmap Heap Scan", "Hash Join", "Merge Join"}, f"{name}: {shown}"
        read = sum(
            node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
            for node in nodes
            if node["Node Type"].startswith("Index")
        )
        assert read <= 2 * page * ranges + 10, f"{name} read {read} rows: {shown}"
        buffers = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        # A row costs its page of the table; a range costs the path down its index, and so do the document of each row
        # and its payer.
        looked_up = {node.get("Relation Name") for node in nodes} & {"journal", "payment"}
        documents = _KEY * page * len(looked_up)
        assert buffers <= 2 * page * ranges + 12 * ranges + 40 + documents, f"{name} touched {buffers} blocks: {shown}"
        for node in nodes:
            if node["Node Type"] in ("Sort", "Incremental Sort"):
                (fed,) = node["Plans"]
                assert fed["Actual Loops"] * fed["Actual Rows"] <= page * ranges, f"{name}: {shown}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def seeded(table_owner: Pool) -> AsyncIterator[Any]:
    async with table_owner.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await conn.execute("SET LOCAL statement_timeout = 0")
        for statement in _SEED:
            await conn.execute(statement, timeout=SEED_S)
        yield conn
        await transaction.rollback()


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
def explained(seeded: Any, request: pytest.FixtureRequest) -> Explained:
    return Explained(seeded, request.param)


ORDERS = list(SortOrder)
_FEW = ("pending", "failed")
CHARGE_FILTERS: dict[str, tuple[dict[str, Any], int]] = {
    "everything": ({}, 1),
    "days": ({"created_from": MIDDLE, "created_to": MIDDLE + timedelta(days=1)}, 1),
    "status": ({"statuses": ("pending",)}, len(METHODS)),
    "rare status": ({"statuses": ("failed",)}, len(METHODS)),
    "method": ({"methods": ("boleto",)}, len(STATUSES)),
    "method that has none": ({"methods": ("boleto_pix",)}, len(STATUSES)),
    "status and method": ({"statuses": _FEW, "methods": ("pix",)}, len(_FEW)),
    "status in days": ({"statuses": ("paid",), "created_from": MIDDLE}, len(METHODS)),
    "all statuses": ({"statuses": STATUSES}, len(STATUSES) * len(METHODS)),
    "external_id": ({"external_id": "order-77"}, 1),
    "external_id of many": ({"external_id": "shared"}, 1),
    "payer": ({"payer_document_hash": "payer-2"}, 1),
    "nosso_numero": ({"nosso_numero": "00000000000000008"}, 1),
    "txid of a boleto": ({"txid": "BOLETO8"}, 1),
    "txid of a pix": ({"txid": "0" * 32}, 1),
    "integrador_code": ({"integrador_code": "INTG-AAAAAA"}, 1),
    "due day": ({"due_from": date(2026, 2, 8), "due_to": date(2026, 2, 8)}, 1),
    "due week": ({"due_from": date(2026, 2, 8), "due_to": date(2026, 2, 14)}, 7),
    "two keys": ({"external_id": "shared", "payer_document_hash": "payer-20"}, 1),
    "key and status": ({"external_id": "order-80", "statuses": ("pending",)}, 1),
    "key and due day": ({"nosso_numero": "00000000000000008", "due_from": date(2026, 2, 8)}, 1),
    "id and status": ({"txid": "0" * 32, "statuses": ("pending",), "due_to": date(2026, 2, 8)}, 1),
    "nothing": ({"external_id": "unknown"}, 1),
}


@pytest.mark.parametrize("walked", ["first page", "in the middle"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("filters", CHARGE_FILTERS)
async def test_a_page_of_charges_reads_only_its_index_ranges(
    explained: Explained, filters: str, order: SortOrder, walked: str
) -> None:
    given, ranges = CHARGE_FILTERS[filters]
    after = None if walked == "first page" else TimePosition(MIDDLE, UUID(int=2**127))
    asked = ChargeFilters(**given, order=order)
    await charge_page(explained, OWNER, asked, after, LIMIT)  # type: ignore[arg-type]
    assert_cheap(explained.plans, ranges=ranges)


PAYMENT_FILTERS: dict[str, dict[str, Any]] = {
    "everything": {},
    "days": {"paid_from": MIDDLE, "paid_to": MIDDLE + timedelta(days=1)},
    "charge_id": {"charge_id": UUID(int=7)},
    "external_id": {"external_id": "order-78"},
    "external_id of many": {"external_id": "shared"},
    "method": {"method": "boleto"},
    "anomaly": {"anomaly": "duplicate"},
    "anomaly that has none": {"anomaly": "paid_after_cancel"},
}


@pytest.mark.parametrize("walked", ["first page", "in the middle"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("filters", PAYMENT_FILTERS)
async def test_a_page_of_payments_reads_only_its_index_range(
    explained: Explained, filters: str, order: SortOrder, walked: str
) -> None:
    after = None if walked == "first page" else TimePosition(MIDDLE, UUID(int=2**127))
    asked = PaymentFilters(**PAYMENT_FILTERS[filters], order=order)
    await payment_page(explained, OWNER, asked, after, LIMIT, seal=SEAL)  # type: ignore[arg-type]
    assert_cheap(explained.plans)


REFUND_FILTERS: dict[str, tuple[dict[str, Any], int]] = {
    "everything": ({}, 1),
    "days": ({"created_from": MIDDLE, "created_to": MIDDLE + timedelta(days=1)}, 1),
    "charge_id": ({"charge_id": UUID(int=7)}, 1),
    "payment_id": ({"payment_id": UUID(int=7)}, 1),
    "external_id": ({"external_id": "order-78"}, 1),
    "external_id of many": ({"external_id": "shared"}, 1),
    "status": ({"statuses": ("pending",)}, 1),
    "rare status": ({"statuses": ("failed",)}, 1),
    "statuses": ({"statuses": ("failed", "pending", "succeeded")}, 3),
}


@pytest.mark.parametrize("walked", ["first page", "in the middle"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("filters", REFUND_FILTERS)
async def test_a_page_of_refunds_reads_only_its_index_ranges(
    explained: Explained, filters: str, order: SortOrder, walked: str
) -> None:
    given, ranges = REFUND_FILTERS[filters]
    after = None if walked == "first page" else TimePosition(MIDDLE, UUID(int=2**127))
    asked = RefundFilters(**given, order=order)
    await refund_page(explained, OWNER, asked, after, LIMIT)  # type: ignore[arg-type]
    # The payment of each refund is looked up through another index.
    assert_cheap(explained.plans, ranges=ranges + 2)


WITHDRAWAL_FILTERS: dict[str, tuple[dict[str, Any], int]] = {
    "everything": ({}, 1),
    "days": ({"created_from": MIDDLE, "created_to": MIDDLE + timedelta(days=1)}, 1),
    "external_id": ({"external_id": "order-78"}, 1),
    "external_id of many": ({"external_id": "shared"}, 1),
    "status": ({"statuses": ("cancelled",)}, 1),
    "rare status": ({"statuses": ("failed",)}, 1),
    "statuses": ({"statuses": ("cancelled", "failed", "succeeded")}, 3),
}


@pytest.mark.parametrize("walked", ["first page", "in the middle"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("filters", WITHDRAWAL_FILTERS)
async def test_a_page_of_withdrawals_reads_only_its_index_ranges(
    explained: Explained, filters: str, order: SortOrder, walked: str
) -> None:
    given, ranges = WITHDRAWAL_FILTERS[filters]
    after = None if walked == "first page" else TimePosition(MIDDLE, UUID(int=2**127))
    asked = WithdrawalFilters(**given, order=order)
    await withdrawal_page(explained, Owner(BIG, Mode.PRODUCTION), asked, after, LIMIT)  # type: ignore[arg-type]
    assert_cheap(explained.plans, ranges=ranges)


SCHEDULE_FILTERS: dict[str, tuple[dict[str, Any], int]] = {
    "everything": ({}, len(SCHEDULE_STATUSES)),
    "external_id": ({"external_id": "order-78"}, len(SCHEDULE_STATUSES)),
    "external_id of many": ({"external_id": "shared"}, len(SCHEDULE_STATUSES)),
    "nothing": ({"external_id": "unknown"}, len(SCHEDULE_STATUSES)),
    "status": ({"statuses": ("active",)}, 1),
    "rare status": ({"statuses": ("paused",)}, 1),
    "external_id of many in a rare status": ({"external_id": "shared", "statuses": ("paused",)}, 1),
}


@pytest.mark.parametrize("walked", ["first page", "in the middle"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("filters", SCHEDULE_FILTERS)
async def test_a_page_of_schedules_reads_only_its_index_ranges(
    explained: Explained, filters: str, order: SortOrder, walked: str
) -> None:
    given, ranges = SCHEDULE_FILTERS[filters]
    after = None if walked == "first page" else TimePosition(MIDDLE, UUID(int=2**127))
    asked = ScheduleFilters(**given, order=order)
    await schedule_page(explained, Owner(BIG, Mode.PRODUCTION), asked, after, LIMIT)  # type: ignore[arg-type]
    assert_cheap(explained.plans, ranges=ranges)


_FAR = {SortOrder.DESC: START + timedelta(hours=2), SortOrder.ASC: START + timedelta(seconds=30 * CHARGES - 7_200)}
"""Two hours at the far end of the list, which hold more than a page."""


def _far_end_filters(order: SortOrder, name: str) -> dict[str, Any]:
    return {f"{name}_to" if order is SortOrder.DESC else f"{name}_from": _FAR[order], "order": order}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("what", ["charges", "charges of a status", "payments", "refunds", "withdrawals"])
async def test_a_page_of_a_distant_range_of_days_costs_no_more_than_the_first_page(
    explained: Explained, what: str, order: SortOrder
) -> None:
    """The page starts at the bound of its days, and does not read the rows between the start of the list and them."""

    async def page(**given: Any) -> None:
        conn: Any = explained
        match what:
            case "payments":
                await payment_page(conn, OWNER, PaymentFilters(**given), None, LIMIT, seal=SEAL)
            case "refunds":
                await refund_page(conn, OWNER, RefundFilters(**given), None, LIMIT)
            case "withdrawals":
                await withdrawal_page(conn, Owner(BIG, Mode.PRODUCTION), WithdrawalFilters(**given), None, LIMIT)
            case "charges":
                await charge_page(conn, OWNER, ChargeFilters(**given), None, LIMIT)
            case _:
                await charge_page(conn, OWNER, ChargeFilters(statuses=("paid",), **given), None, LIMIT)

    await page(order=order)
    await page(**_far_end_filters(order, "paid" if what == "payments" else "created"))
    first, far = (plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for _, plan in explained.plans)
    assert far <= first + 12


EVENT_FILTERS: dict[str, tuple[dict[str, Any], int]] = {
    "everything": ({}, 1),
    "days": ({"created_from": MIDDLE, "created_to": MIDDLE + timedelta(days=1)}, 1),
    "days to come": ({"created_from": START + timedelta(days=3650)}, 1),
    "type": ({"types": ("payment.received",)}, 1),
    "types": ({"types": ("charge.expired", "charge.failed", "charge.refunded")}, 3),
    "charge_id": ({"charge_id": UUID(int=7)}, 1),
    "external_id": ({"external_id": "order-78"}, 1),
    "external_id of many": ({"external_id": "shared"}, 1),
    "after_sequence": ({"after_sequence": 15_000}, 1),
}


@pytest.mark.parametrize("walked", ["first page", "in the middle"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("filters", EVENT_FILTERS)
async def test_a_page_of_events_reads_only_its_index_ranges(
    explained: Explained, filters: str, order: SortOrder, walked: str
) -> None:
    given, ranges = EVENT_FILTERS[filters]
    after = None if walked == "first page" else SequencePosition(CHARGES // 2)
    asked = EventFilters(**given, order=order)
    await event_page(explained, OWNER, asked, after, LIMIT)  # type: ignore[arg-type]
    assert_cheap(explained.plans, ranges=ranges)


LEDGER_FILTERS: dict[str, dict[str, Any]] = {
    "everything": {},
    "type": {"type": "payment"},
    "rare type": {"type": "adjustment"},
    "days": {"created_from": MIDDLE, "created_to": MIDDLE + timedelta(days=1)},
}


@pytest.mark.parametrize("walked", ["first page", "in the middle"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("filters", LEDGER_FILTERS)
async def test_a_page_of_the_ledger_reads_only_its_index_range(
    explained: Explained, filters: str, order: SortOrder, walked: str
) -> None:
    after = None if walked == "first page" else SequencePosition(CHARGES // 2)
    asked = LedgerFilters(**LEDGER_FILTERS[filters], order=order)
    await ledger_page(explained, OWNER, asked, after, LIMIT)  # type: ignore[arg-type]
    assert_cheap(explained.plans)


async def test_the_balance_is_read_from_one_row(explained: Explained) -> None:
    assert (await balance(explained, OWNER)).balance == "400.00"  # type: ignore[arg-type]
    assert_cheap(explained.plans, page=1)


@pytest.mark.parametrize("filters", ["everything", "days", "method", "external_id of many", "payer", "due week"])
async def test_the_sum_of_overdue_charges_reads_only_overdue_charges(seeded: Any, filters: str) -> None:
    explained: Any = Explained(seeded, "force_generic_plan")  # The application's role is configured with generic plans.
    now = START + timedelta(days=2)
    overdue = await seeded.fetchval(
        "SELECT count(*) FROM charge WHERE account_id = $1 AND status = 'pending' AND expires_at <= $2", BIG, now
    )
    assert 0 < overdue < 1_000
    given = charge_filter_parameters(OWNER, ChargeFilters(**CHARGE_FILTERS[filters][0]))
    await overdue_sum(explained, **given, now=now)
    assert_cheap(explained.plans, page=1, ranges=overdue)
    explained.plans.clear()
    await first_overdue(explained, account_id=BIG, test=True, now=now)
    assert_cheap(explained.plans, page=1)


async def test_a_batch_of_lookups_reads_only_the_requested_rows(explained: Explained, seeded: Any) -> None:
    rows = await seeded.fetch("SELECT id FROM seed WHERE n % 200 = 0")
    await charges_by_id(explained, [(row["id"], OWNER) for row in rows])  # type: ignore[arg-type]
    assert_cheap(explained.plans, ranges=len(rows), page=1)


async def test_finding_overdue_charges_reads_only_overdue_charges(explained: Explained) -> None:
    for now in (START, START + timedelta(days=2), START + timedelta(days=365)):
        await find_overdue_of_account(explained, account_id=BIG, test=True, now=now, limit=COMMANDS_MAX)
        await find_overdue(explained, now=now, limit=COMMANDS_MAX)
    assert_cheap(explained.plans, page=COMMANDS_MAX)
    explained.plans.clear()
    clocks = [ClockAhead(BIG, 3_600), *(ClockAhead(UUID(int=number), 60) for number in range(2, 60))]
    await find_overdue_ahead(explained, clocks=clocks, now=START, limit=COMMANDS_MAX)
    await find_clocks_ahead(explained, after=UUID(int=0), limit=len(clocks))
    assert_cheap(explained.plans, ranges=len(clocks), page=COMMANDS_MAX)


async def test_the_days_of_a_month_are_summed_by_index_probes_and_not_from_their_payments(explained: Explained) -> None:
    days = [MIDDLE.date() + timedelta(days=number) for number in range(-15, CLOSINGS_MAX - 15)]
    with suppress(ValueError):  # Explained returns no rows that could be paired with the days.
        await closings(explained, OWNER, days)  # type: ignore[arg-type]
    with suppress(ValueError):
        await received_by_day(explained, OWNER, now=MIDDLE)  # type: ignore[arg-type]
    # A range for each edge of a day, for each day and type other than payment and fee, and for the kept totals of fees.
    assert_cheap(explained.plans, page=1, ranges=(len(days) + 1) + len(days) * (len(ENTRY_TYPES) - 1))


async def test_the_days_of_a_month_cost_no_more_when_every_payment_has_a_fee(
    explained: Explained, seeded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [MIDDLE.date() + timedelta(days=number) for number in range(-2, CLOSINGS_MAX - 2)]
    monkeypatch.setattr(spans, "LAG_ROWS_MAX", 10**9)
    inner = seeded.transaction()
    await inner.start()
    try:
        for statement in (
            "INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents,"
            " created_at) SELECT $1, false, row_number() OVER (ORDER BY n, type DESC), gen_random_uuid(), type,"
            " CASE type WHEN 'fee' THEN -1 ELSE 3 END, n, at FROM seed, unnest(ARRAY['payment', 'fee']) type"
            " WHERE n % 2 = 0 AND account_id = $1",
            "INSERT INTO span_entry"
            " SELECT account_id, 'day', (at AT TIME ZONE 'America/Sao_Paulo')::date, 'fee', 'pix', count(*), -count(*)"
            " FROM seed WHERE n % 2 = 0 AND account_id = $1 GROUP BY 1, 3",
        ):
            await seeded.execute(statement, BIG)
        await seeded.execute("UPDATE report_position SET journal_id = (SELECT last_value FROM journal_journal_id_seq)")
        await seeded.execute("ANALYZE read_ledger, span_entry")
        owner = Owner(BIG, Mode.PRODUCTION)
        with suppress(ValueError):
            await closings(explained, owner, days)  # type: ignore[arg-type]
        assert_cheap(explained.plans, page=1, ranges=(len(days) + 1) + len(days) * (len(ENTRY_TYPES) - 1))
        found = await closings(seeded, owner, days)
        assert (found[2].payments, found[2].received_cents, found[2].fee_cents) == (2_880, 8_640, 2_880)
    finally:
        await inner.rollback()


async def test_a_daily_withdrawal_is_found_without_reading_accounts_that_are_not_approved(
    explained: Explained, seeded: Any
) -> None:
    today = START.date()
    inner = seeded.transaction()
    await inner.start()
    try:
        await seeded.execute(
            "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
            " SELECT md5('blocked' || n)::uuid, 'Loja', '12345678000190', 'Recife', 'blocked', 'k', now()"
            " FROM generate_series(1, 500) AS n"
        )
        await seeded.execute(
            "INSERT INTO auto_withdrawal SELECT account_id, 0, $1::date - CASE kyc WHEN 'blocked' THEN 9 ELSE 1 END"
            " FROM account ON CONFLICT DO NOTHING",
            today,
        )
        await seeded.execute("ANALYZE account, auto_withdrawal")
        assert await take_daily(explained, day=today, now=START) is not None
        assert_cheap(explained.plans, page=1, ranges=4)
    finally:
        await inner.rollback()


async def test_the_payments_of_a_charge_are_found_by_its_id(explained: Explained) -> None:
    await payments_of(explained, UUID(int=7), OWNER)  # type: ignore[arg-type]
    assert_cheap(explained.plans, page=20)


async def test_a_search_by_amount_or_payer_reads_a_bounded_number_of_the_newest_charges(explained: Explained) -> None:
    await newest_of_amount(explained, OWNER, 1234)  # type: ignore[arg-type]
    await newest_of_payer(explained, OWNER, "maria", seal=SEAL)  # type: ignore[arg-type]
    await search_payers_by_name(explained, OWNER, "maria", seal=SEAL)  # type: ignore[arg-type]
    assert_cheap(explained.plans, page=newest_search.LOOKED_MAX, ranges=4)


async def test_finding_the_existing_due_dates_costs_one_index_probe_each(explained: Explained) -> None:
    asked = ChargeFilters(due_from=date(2026, 2, 1), due_to=date(2026, 4, 1))
    await due_days(explained, OWNER, asked)  # type: ignore[arg-type]
    assert_cheap(explained.plans, page=1, ranges=61)


@pytest.mark.parametrize(
    "other",
    [
        {"external_id": "order-8"},
        {"nosso_numero": "00000000000000008"},
        {"payer_document_hash": "payer-8"},
        {"methods": ("boleto",)},
        {"due_from": date(2026, 2, 9), "due_to": date(2026, 2, 9)},
        {"due_from": date(2026, 2, 9)},
        {"due_to": date(2026, 2, 9)},
    ],
    ids=str,
)
async def test_every_other_filter_narrows_a_search_by_txid(seeded: Any, other: dict[str, Any]) -> None:
    async def counted(**given: Any) -> int:
        return sum(each.count for each in (await charge_sums(seeded, OWNER, ChargeFilters(**given))).values())

    assert await counted(txid="BOLETO8", **other) == 1
    assert await counted(txid="BOLETO18", **other) == (
        1 if other.keys() <= {"methods", "due_from"} and len(other) == 1 else 0
    )
