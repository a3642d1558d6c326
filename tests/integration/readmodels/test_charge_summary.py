"""Count and amount per status are exact at once, in both modes, whether they come from kept totals or from the charges,
and cost about the same over a month and over thirty years."""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

import readmodels.spans as spans
from commands.charges.expire import expire_account
from commands.charges.pay import Confirmation, confirm_payments
from commands.sandbox_clock import advance_clock
from domain.boleto.codes import FIRST_DUE, LAST_DUE
from domain.instants import SAO_PAULO, day_begins, day_ends
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from domain.money import reais
from domain.sandbox_clock import on_clock
from readmodels.charges.charge_list import ChargeFilters, StatusCents, charge_page, charge_sums
from readmodels.dashboard.overview import standing
from readmodels.money.ledger import LedgerFilters, ledger_sums
from readmodels.money.payment_list import PaymentFilters, payment_sum
from readmodels.reports.fold import fold_up_to, wait_for_horizon
from readmodels.reports.merchant import CohortOutcome, ages, outcomes, settled_months
from readmodels.reports.report import By
from runtime.postgres import Pool, open_pool, transaction
from runtime.seal import Seal
from tests.integration.readmodels.test_plans import SEED_S, Explained
from tests.support.banking import SECRET_KEY, make_account, make_charges, new_locations
from tests.support.database import own_database, owner_of
from tests.support.partners import new_charge

SEAL = Seal(bytes.fromhex(SECRET_KEY))


@pytest_asyncio.fixture(loop_scope="session")
async def own_url(servers: Any) -> AsyncIterator[str]:
    """A database of its own, in which no worker folds the totals."""
    async with own_database(servers, "summary") as url:
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def own_pool(own_url: str) -> AsyncIterator[Pool]:
    opened = await open_pool(own_url, name="tests", size=4)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def own_owner(servers: Any, own_url: str) -> AsyncIterator[Pool]:
    opened = await open_pool(owner_of(servers, own_url), name="tests as owner", size=1)
    yield opened
    await opened.close()


@pytest.fixture(params=list(Mode))
def mode(request: pytest.FixtureRequest) -> Mode:
    found: Mode = request.param
    return found


async def issue(pool: Pool, account_id: UUID, count: int, mode: Mode = Mode.PRODUCTION) -> list[UUID]:
    return await make_charges(pool, account_id, new_locations(count), test=mode.test, amount_cents=1_050)


async def pay(pool: Pool, charge_ids: list[UUID]) -> None:
    now = datetime.now(UTC)
    received = [
        Confirmation(charge_id=each, end_to_end_id=f"E{secrets.token_hex(12)}", amount_cents=1_050, paid_at=now)
        for each in charge_ids
    ]
    async with transaction(pool) as conn:
        await confirm_payments(conn, received, now=now, seal=SEAL, fees=NO_FEES)


async def fold(pool: Pool) -> None:
    async with pool.acquire() as conn:
        horizon = await wait_for_horizon(conn)
    assert horizon is not None
    async with transaction(pool) as conn:
        await fold_up_to(conn, horizon)


async def sums_by_status(
    pool: Pool, account_id: UUID, mode: Mode = Mode.PRODUCTION, **given: Any
) -> dict[str, tuple[int, str]]:
    async with pool.acquire() as conn:
        sums = await charge_sums(conn, Owner(account_id, mode), ChargeFilters(**given))
    return {status: (each.count, reais(each.cents)) for status, each in sums.items() if each.count}


async def test_charges_changed_since_the_last_fold_are_counted_in_their_current_status(
    own_pool: Pool, mode: Mode
) -> None:
    account_id, other = await make_account(own_pool), await make_account(own_pool)
    sums_of_other_mode = {"pending": (7, "73.50")}
    await issue(own_pool, account_id, 7, Mode.SANDBOX if mode is Mode.PRODUCTION else Mode.PRODUCTION)

    async def current_sums(**given: Any) -> dict[str, tuple[int, str]]:
        return await sums_by_status(own_pool, account_id, mode, **given)

    first = await issue(own_pool, account_id, 4, mode)
    await issue(own_pool, other, 3, mode)
    assert await current_sums() == {"pending": (4, "42.00")}
    await fold(own_pool)
    assert await current_sums() == {"pending": (4, "42.00")}
    await pay(own_pool, first[:1])  # The totals still count it as pending.
    await issue(own_pool, account_id, 2, mode)  # The totals do not have these yet.
    assert await current_sums() == {"pending": (5, "52.50"), "paid": (1, "10.50")}
    assert await current_sums(statuses=("paid",)) == {"paid": (1, "10.50")}
    assert await current_sums(methods=("boleto",)) == {}
    await fold(own_pool)
    await pay(own_pool, first[1:])
    assert await current_sums() == {"pending": (2, "21.00"), "paid": (4, "42.00")}
    assert await sums_by_status(own_pool, other, mode) == {"pending": (3, "31.50")}
    apart = Mode.SANDBOX if mode is Mode.PRODUCTION else Mode.PRODUCTION
    assert await sums_by_status(own_pool, account_id, apart) == sums_of_other_mode


async def _issued_at(own_pool: Pool, owner: Pool, account_id: UUID, at: datetime, mode: Mode) -> UUID:
    """Issues a charge and moves its creation to the instant `at`."""
    (charge_id,) = await issue(own_pool, account_id, 1, mode)
    await owner.execute("ALTER TABLE journal DISABLE TRIGGER journal_is_append_only")
    await owner.execute(
        "UPDATE journal SET payload = jsonb_set(payload, '{charge,created_at}', to_jsonb($1::text))"
        " WHERE charge_id = $2",
        at.isoformat(), charge_id,
    )  # fmt: skip
    for table in ("charge", "read_charge"):
        await own_pool.execute(f"UPDATE {table} SET created_at = $1 WHERE charge_id = $2", at, charge_id)  # noqa: S608
    return charge_id


@pytest.mark.parametrize("folded", ["no", "half", "all"])
async def test_sums_with_bounds_within_a_day_are_exact_to_the_instant(
    own_pool: Pool, own_owner: Pool, mode: Mode, folded: str
) -> None:
    """Charges are spread over three years; the sums of each pair of bounds are compared with a count of the charges."""
    account_id = await make_account(own_pool)
    midnight = day_begins(datetime.now(UTC).date())
    hours_ago = (26_000, 9_000, 800, 80, 60, 49, 48, 47, 30, 24, 1, 0)
    instants = [midnight - timedelta(hours=hours) for hours in hours_ago]
    for number, at in enumerate(instants):
        charge_id = await _issued_at(own_pool, own_owner, account_id, at, mode)
        if number % 2:
            await pay(own_pool, [charge_id])
        if folded == "all" or (folded == "half" and number < len(instants) // 2):
            await fold(own_pool)
    until = (30_000, 8_999, 790, 90, 72, 61, 48, 47.5, 30, 24, 12, 0, -1)
    bounds = [None, *(midnight - timedelta(hours=hours) for hours in until)]
    for begins in bounds:
        for ends in bounds:
            within = [
                number % 2 == 1
                for number, at in enumerate(instants)
                if (begins is None or at >= begins) and (ends is None or at < ends)
            ]
            counted = await sums_by_status(own_pool, account_id, mode, created_from=begins, created_to=ends)
            assert counted.get("paid", (0, ""))[0] == within.count(True), (begins, ends)
            assert counted.get("pending", (0, ""))[0] == within.count(False), (begins, ends)


async def test_a_sandbox_whose_clock_is_ahead_is_summed_by_its_own_days(own_pool: Pool) -> None:
    """Two charges of today and one of a year ahead. Those of today expire by the advanced clock before they are
    counted."""
    account_id, now = await make_account(own_pool), datetime.now(UTC)
    owner = Owner(account_id, Mode.SANDBOX)
    await issue(own_pool, account_id, 2, Mode.SANDBOX)
    await fold(own_pool)
    async with own_pool.acquire() as conn:
        ahead_s = await advance_clock(conn, account_id, 365 * 86_400, now=now)
    assert await expire_account(own_pool, owner, now=now) == 2
    later = on_clock(now, ahead_s)
    await new_charge(own_pool, account_id, 1_050, test=True, at=later)
    tomorrow = day_begins(now.astimezone(SAO_PAULO).date() + timedelta(days=1))
    for _ in range(2):
        assert await sums_by_status(own_pool, account_id, Mode.SANDBOX) == {
            "pending": (1, "10.50"),
            "expired": (2, "21.00"),
        }
        assert await sums_by_status(own_pool, account_id, Mode.SANDBOX, created_from=tomorrow) == {
            "pending": (1, "10.50")
        }
        assert await sums_by_status(own_pool, account_id, Mode.SANDBOX, created_to=tomorrow) == {
            "expired": (2, "21.00")
        }
        await fold(own_pool)


async def test_sums_by_due_date_count_a_boleto_at_its_changed_due_date(
    own_pool: Pool, own_owner: Pool, mode: Mode
) -> None:
    """The due date of a boleto is moved by nine days; its sums are compared before and after each fold."""
    account_id, now = await make_account(own_pool), datetime.now(UTC)
    owner, today = Owner(account_id, mode), now.astimezone(SAO_PAULO).date()
    boleto, _ = await issue(own_pool, account_id, 2, mode)
    of_others = [
        *await issue(own_pool, account_id, 1, Mode.of(not mode.test)),
        *await issue(own_pool, await make_account(own_pool), 1, mode),
    ]
    await own_owner.execute("ALTER TABLE journal DISABLE TRIGGER journal_is_append_only")
    kind = json.dumps({"payment_method": "boleto", "due_date": today.isoformat()})
    await own_owner.execute(
        "UPDATE journal SET payload = jsonb_set(payload, '{charge}', payload -> 'charge' || $1::text::jsonb)"
        " WHERE charge_id = ANY($2)",
        kind, [boleto, *of_others],
    )  # fmt: skip
    await own_pool.execute(
        "UPDATE read_charge SET payment_method = 'boleto', due_date = $1 WHERE charge_id = ANY($2)",
        today, [boleto, *of_others],
    )  # fmt: skip

    async def due(first: int | None, last: int | None) -> int:
        bounds = [None if days is None else today + timedelta(days=days) for days in (first, last)]
        found = await sums_by_status(own_pool, account_id, mode, due_from=bounds[0], due_to=bounds[1])
        return sum(count for count, _ in found.values())

    async def open_by_age() -> dict[str, tuple[int, int]]:
        async with own_pool.acquire() as conn:
            found = await ages(conn, owner, today)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(spans, "LAG_ROWS_MAX", -1)
                assert await ages(conn, owner, today) == found, "counted while the totals are far behind"
        return {each.bucket: (each.boletos, each.cents) for each in found if each.boletos}

    for _ in range(2):
        assert [await due(*days) for days in ((0, 0), (None, -1), (1, None), (None, None))] == [1, 0, 0, 2]
        assert await open_by_age() == {"open_today": (1, 1_050)}
        await fold(own_pool)
    later = today + timedelta(days=9)
    await own_pool.execute(
        "INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload)"
        " VALUES ($1, $2, $3, 2, 'charge.changed', $4, 'test', $5::text::jsonb)",
        account_id, mode.test, boleto, now, json.dumps({"charge": {"due_date": later.isoformat(), "version": 2}}),
    )  # fmt: skip
    await own_pool.execute("UPDATE read_charge SET due_date = $1, version = 2 WHERE charge_id = $2", later, boleto)
    for _ in range(2):
        assert [await due(*days) for days in ((0, 0), (None, 8), (1, None), (9, 9))] == [0, 0, 1, 1]
        assert await open_by_age() == {"open_8_to_30": (1, 1_050)}
        bounded = {"due_from": today, "created_from": now + timedelta(hours=1)}
        assert await sums_by_status(own_pool, account_id, mode, **bounded) == {}
        await fold(own_pool)


async def test_a_list_over_every_possible_due_date_shows_all_that_is_counted(own_pool: Pool) -> None:
    """There is one boleto for each due date; the one with the latest date was issued last."""
    account_id, days = await make_account(own_pool), (LAST_DUE - FIRST_DUE).days + 1
    await own_pool.execute(
        "WITH day AS MATERIALIZED ("
        " SELECT n::integer AS n, gen_random_uuid() AS charge_id FROM generate_series(0, $2::integer - 1) AS n"
        "), journaled AS ("
        " INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload)"
        " SELECT $1::uuid, true, charge_id, 1, 'charge.created', now(), 'test',"
        "  jsonb_build_object('charge', jsonb_build_object("
        "   'account_id', $1::uuid, 'charge_id', charge_id, 'test', true, 'public_id', charge_id,"
        "   'payment_method', 'boleto', 'status', 'pending', 'version', 1, 'amount_cents', 100,"
        "   'due_date', $3::date + n, 'created_at', timestamptz '2026-01-01 12:00Z' + n * interval '1 second'))"
        " FROM day RETURNING journal_id"
        ") SELECT project_created(array_agg(journal_id)) FROM journaled",
        account_id, days, FIRST_DUE,
    )  # fmt: skip
    owner, filters = Owner(account_id, Mode.SANDBOX), ChargeFilters(due_from=FIRST_DUE)
    listed: list[str] = []
    after = None
    while not listed or after is not None:
        async with own_pool.acquire() as conn:
            docs, after = await charge_page(conn, owner, filters, after, 1_000)
        listed += [doc.due_date or "" for doc in docs]
    assert listed == [(LAST_DUE - timedelta(days=each)).isoformat() for each in range(days)]
    assert await sums_by_status(own_pool, account_id, Mode.SANDBOX, due_from=FIRST_DUE) == {
        "pending": (days, f"{days}.00")
    }


async def test_totals_that_lag_too_far_behind_are_not_used(own_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    account_id = await make_account(own_pool)
    await issue(own_pool, account_id, 3)
    await own_pool.execute(
        "INSERT INTO span_charge VALUES ($1, false, 'issued', 'decade', '2010-01-01', 'pix', 'paid', 7, 700)",
        account_id,
    )
    assert (await sums_by_status(own_pool, account_id))["paid"] == (7, "7.00"), (
        "the totals must be used while they lag little"
    )
    monkeypatch.setattr(spans, "LAG_ROWS_MAX", 0)
    assert await sums_by_status(own_pool, account_id) == {"pending": (3, "31.50")}


async def test_outcomes_are_counted_from_the_charges_while_the_totals_lag_too_far_behind(
    own_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    account_id, last = await make_account(own_pool), datetime.now(SAO_PAULO).date() - timedelta(days=1)
    first, mode = last - timedelta(days=1), Mode.PRODUCTION
    statuses = ["paid", "refunded", "pending", *["expired"] * 2, *["cancelled"] * 3, *["failed"] * 4]
    made = [
        *await issue(own_pool, account_id, len(statuses) + 1),
        *await issue(own_pool, account_id, 1, Mode.SANDBOX),
        *await issue(own_pool, await make_account(own_pool), 1),
    ]
    last_instant, after = day_ends(last) - timedelta(milliseconds=1), day_ends(last)
    at = [day_begins(first), *[last_instant] * (len(statuses) - 1), after, last_instant, last_instant]
    await own_pool.executemany(
        "UPDATE read_charge SET status = $2, amount_cents = $3, created_at = $4 WHERE charge_id = $1",
        [
            (charge_id, status, 10**number, when)
            for number, (charge_id, status, when) in enumerate(zip(made, [*statuses, *["failed"] * 3], at, strict=True))
        ],
    )
    monkeypatch.setattr(spans, "LAG_ROWS_MAX", -1)
    async with own_pool.acquire() as conn:
        found = await outcomes(conn, Owner(account_id, mode), first, last, By.DAY)
    assert found == [
        CohortOutcome(
            day=last,
            issued=11,
            issued_cents=111_111_111_110,
            paid=1,
            paid_cents=10,
            open=1,
            expired=2,
            cancelled=3,
            failed=4,
        ),
        CohortOutcome(
            day=first, issued=1, issued_cents=1, paid=1, paid_cents=1, open=0, expired=0, cancelled=0, failed=0
        ),
    ]


async def test_the_overview_sums_all_open_charges_however_many_they_are(own_pool: Pool) -> None:
    """1,100 charges are in the totals and two are newer; the page shows their exact sum, not a bound."""
    account_id = await make_account(own_pool)
    made = await issue(own_pool, account_id, 100)
    for _ in range(10):
        await issue(own_pool, account_id, 100)
    await fold(own_pool)
    await issue(own_pool, account_id, 2)
    await pay(own_pool, made[:1])
    async with own_pool.acquire() as conn:
        shown = await standing(conn, Owner(account_id, Mode.PRODUCTION), now=datetime.now(UTC))
    assert shown.open == StatusCents(1_101, 1_101 * 1_050)
    assert shown.expired == StatusCents(0, 0)
    assert shown.balance_cents == 1_050


# What summaries cost

SHORT, LONG = UUID(int=0x51), UUID(int=0x52)
MONTH, DECADES = 31, 30 * 365
FIRST = date(2001, 1, 17)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def histories(table_owner: Pool) -> AsyncIterator[Any]:
    """Kept totals of an account with one month of charges, and of one with thirty years."""
    async with table_owner.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await conn.execute("SET LOCAL statement_timeout = 0")
        for account_id, days in ((SHORT, MONTH), (LONG, DECADES)):
            await conn.execute(
                "INSERT INTO span_charge SELECT $1, t, d, s.span, s.starts, m, u, count(*), 100 * count(*)"
                " FROM generate_series(0, $2 - 1) n CROSS JOIN LATERAL spans_of($3::date + n) s,"
                " unnest(ARRAY['pix', 'boleto']) m, unnest(ARRAY['pending', 'paid', 'expired']) u,"
                " unnest(ARRAY[false, true]) t, unnest(ARRAY['issued', 'due']) d GROUP BY 2, 3, 4, 5, 6, 7",
                account_id, days, FIRST, timeout=SEED_S,
            )  # fmt: skip
            await conn.execute(
                "INSERT INTO span_entry SELECT $1, s.span, s.starts, k, m, count(*), 100 * count(*)"
                " FROM generate_series(0, $2 - 1) n CROSS JOIN LATERAL spans_of($3::date + n) s,"
                " unnest(ARRAY['pix', 'boleto']) m, unnest(ARRAY['payment', 'refund']) k GROUP BY 2, 3, 4, 5",
                account_id, days, FIRST, timeout=SEED_S,
            )  # fmt: skip
        await conn.execute("ANALYZE span_charge, span_entry", timeout=SEED_S)
        yield conn
        await transaction.rollback()


def _rows_read(explained: Explained, *tables: str) -> int:
    """Returns how many rows the plans read from these tables; asserts that they read them through indexes."""
    rows = 0
    for _, plan in explained.plans:
        nodes = [plan]
        while nodes:
            node = nodes.pop()
            nodes += node.get("Plans", [])
            of = node.get("Relation Name")
            # report_position and the sequence of the journal have one row each.
            assert of in (None, "report_position", "journal_journal_id_seq") or node["Node Type"].startswith("Index"), (
                plan
            )
            if of in tables:
                rows += node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    return int(rows)


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
async def test_a_summary_of_everything_reads_one_row_per_decade_method_and_status(
    histories: Any, mode: Mode, plans: str
) -> None:
    read = {}
    for account_id in (SHORT, LONG):
        explained: Any = Explained(histories, plans)
        await charge_sums(explained, Owner(account_id, mode), ChargeFilters())
        read[account_id] = _rows_read(explained, "span_charge", "read_charge")
    # Each decade has two methods and three statuses.
    assert (read[SHORT], read[LONG]) == (6, 4 * 6)


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("dated", ["issued", "due"])
async def test_a_summary_between_any_two_days_reads_a_bounded_number_of_spans(
    histories: Any, mode: Mode, plans: str, dated: str
) -> None:
    early, late = date(2001, 1, 18), date(2029, 12, 30)
    for first, after in ((early, late), (early, None), (None, late)):
        if dated == "due":
            filters = ChargeFilters(due_from=first, due_to=after and after - timedelta(days=1))
        else:
            begins, ends = (None if day is None else day_begins(day) for day in (first, after))
            filters = ChargeFilters(created_from=begins, created_to=ends)
        explained: Any = Explained(histories, plans)
        await charge_sums(explained, Owner(LONG, mode), filters)
        # Of 10,950 days it reads days and months at both ends, and years and decades between.
        assert 0 < _rows_read(explained, "span_charge", "read_charge") <= 6 * (30 + 30 + 11 + 11 + 9 + 9 + 3)
        counted = await charge_sums(histories, Owner(LONG, mode), filters)
        last = FIRST + timedelta(days=DECADES)
        days = (min(after or last, last) - (first or FIRST)).days
        assert {status: each.count for status, each in counted.items() if each.count} == dict.fromkeys(
            ("pending", "paid", "expired"), 2 * days
        )


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
async def test_open_boletos_by_age_are_read_from_a_bounded_number_of_spans(
    histories: Any, mode: Mode, plans: str
) -> None:
    today = date(2029, 12, 30)
    explained: Any = Explained(histories, plans)
    with suppress(ValueError):  # Explained returns no rows that could be paired with the buckets.
        await ages(explained, Owner(LONG, mode), today)
    # Each span has two methods. There are nine buckets, three of them open at one end.
    assert 0 < _rows_read(explained, "span_charge", "read_charge") <= 2 * 3 * (30 + 11 + 9 + 3) + 2 * (60 + 30 + 30 + 8)
    found = {each.bucket: each.boletos for each in await ages(histories, Owner(LONG, mode), today)}
    assert (found["open_today"], found["open_past_due"]) == (2, 2 * (today - FIRST).days)


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
async def test_the_sums_of_ledger_and_payments_are_read_from_a_few_spans(histories: Any, plans: str) -> None:
    read = {}
    for account_id in (SHORT, LONG):
        explained: Any = Explained(histories, plans)
        owner = Owner(account_id, Mode.PRODUCTION)
        await ledger_sums(explained, owner, LedgerFilters())
        sums = _rows_read(explained, "span_entry", "read_ledger")
        explained.plans.clear()
        await payment_sum(explained, owner, PaymentFilters())
        read[account_id] = sums, _rows_read(explained, "span_entry", "read_payment")
    assert read == {SHORT: (4, 2), LONG: (16, 8)}
    lines = await ledger_sums(histories, Owner(LONG, Mode.PRODUCTION), LedgerFilters())
    assert {each.type: each.lines for each in lines} == {"payment": 2 * DECADES, "refund": 2 * DECADES}


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
async def test_the_months_of_a_settlement_are_read_from_spans_of_months(histories: Any, plans: str) -> None:
    explained: Any = Explained(histories, plans)
    with suppress(IndexError):  # Explained returns no rows that could be paired with the months.
        await settled_months(explained, LONG, date(2028, 1, 1), date(2028, 12, 31))
    # The types and methods of each month of that year and of the two years after it.
    assert 0 < _rows_read(explained, "span_entry") <= 4 * 12 * 4
