"""What a report computes from its rows: their total, the total of the previous period, and the points of its plot."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from domain.instants import SAO_PAULO
from readmodels.reports.compare import before, plotted, total_of, whole
from readmodels.reports.merchant import CohortOutcome
from readmodels.reports.report import Column, ColumnKind, MeanOver, NoTotal, ReportQuery, Share, keeping
from readmodels.reports.reports import REPORTS
from runtime.postgres import Pool, session
from tests.support.banking import make_account
from tests.support.partners import book_past_payments

TODAY = date(2031, 3, 31)


def query_for(first: date, last: date, account_id: UUID | None = None) -> ReportQuery:
    return ReportQuery(first=first, last=last, today=TODAY, account_id=account_id)


def test_the_previous_period_is_as_long_and_ends_the_day_before() -> None:
    earlier = before(query_for(date(2031, 3, 1), date(2031, 3, 31)))
    assert (earlier.first, earlier.last) == (date(2031, 1, 29), date(2031, 2, 28))
    assert before(earlier).last == date(2031, 1, 28)


def test_a_total_takes_ratios_from_its_sums_and_weights_means() -> None:
    columns = (
        Column("day", "Dia", ColumnKind.DATE),
        Column("tried", "Tentativas", ColumnKind.COUNT),
        Column("done", "Feitas", ColumnKind.COUNT),
        Column("success", "%", ColumnKind.RATIO, Share("done", "tried")),
        Column("mean_ms", "ms", ColumnKind.COUNT, MeanOver("tried")),
        Column("median", "Mediana", ColumnKind.COUNT, NoTotal()),
    )
    rows = [(TODAY, 99, 99, 10_000, 10, 5), (TODAY, 1, 0, 0, 1_010, 7)]
    assert total_of(columns, rows) == (None, 100, 99, 9_900, 20, None)
    assert total_of(columns, []) == (None, 0, 0, None, None, None)
    # Halves are rounded as the statements of the rows round them, so the total of a single row equals the row.
    assert total_of(columns, [(TODAY, 64, 18, 2_813, 3, 5)])[3:5] == (2_813, 3)
    assert total_of(columns, [(TODAY, 1, 0, 0, 2, 5), (TODAY, 1, 0, 0, 3, 5)])[4] == 3
    day = CohortOutcome(
        TODAY, issued=64, issued_cents=64, paid=18, paid_cents=18, open=0, expired=46, cancelled=0, failed=0
    )
    assert day.conversion == 2_813


def test_every_report_has_a_column_to_plot_and_never_sums_ratios() -> None:
    for report in REPORTS.values():
        named = {column.name: column for column in report.columns}
        assert report.plotted in named, report.name
        assert report.grouped or report.of_one_account or report.named_by in named, report.name
        for column in report.columns:
            assert (column.kind is ColumnKind.RATIO) == isinstance(column.total, Share), column.name
            parts = column.total if isinstance(column.total, Share | MeanOver) else ()
            assert set(parts) <= set(named), column.name


async def test_totals_and_plots_match_the_books_to_the_cent(pool: Pool) -> None:
    account_id, now = await make_account(pool), datetime.now(UTC)
    await book_past_payments(pool, account_id, (40, 30_00), (2, 7_00), (0, 50_00), (0, 100_00))
    today = now.astimezone(SAO_PAULO).date()
    month = ReportQuery(first=today - timedelta(days=29), last=today, today=today, account_id=account_id)
    receipts, settlement = REPORTS["receipts"], REPORTS["settlement"]
    async with session(pool) as conn:
        lend = keeping(conn)
        rows = [row async for row in receipts.rows(lend, month)]
        total = await whole(receipts, lend, month)
        assert total == total_of(receipts.columns, rows) == (None, None, 3, 157_00, 0, 0)
        assert (await whole(receipts, lend, before(month)))[3] == 30_00
        year = ReportQuery(first=today - timedelta(days=364), last=today, today=today, account_id=account_id)
        assert (
            sum(point.value for point in await plotted(receipts, lend, year)) == (await whole(receipts, lend, year))[3]
        )
        points = await plotted(receipts, lend, month)
        assert (len(points), sum(point.value for point in points)) == (30, total[3])
        ends = await plotted(settlement, lend, month)
        closing = {row[0]: row[6] async for row in settlement.rows(lend, month) if row[1] == "closing"}
        assert {point.at: point.value for point in ends} == closing
        moved = await whole(settlement, lend, month)
        lines = [row async for row in settlement.rows(lend, month)]
        assert moved[5] == sum(row[5] for row in lines if row[1] == "closing")
        assert moved[6] == lines[-1][6]
        assert moved[13] == sum(row[13] for row in lines if row[1] == "closing")
