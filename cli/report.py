"""`quita report NAME`: the platform's reports as a table, CSV or JSON. Production only."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, date, datetime
from typing import IO, Any
from uuid import UUID

import msgspec

from cli.answer import Commands, answer, connected, in_transaction
from cli.cells.ask import CellAddress, ask_each, cells_of, takes_all
from cli.run.child import CannotRun
from domain.instants import day_of, iso, parse_day
from readmodels.dashboard.platform import search_merchants
from readmodels.reports.csv_lines import BOM, csv_line
from readmodels.reports.over_cells import CellRows, columns_of_cells, merge_rows_of_cells, oldest, read_cell
from readmodels.reports.report import (
    By,
    Freshness,
    Report,
    ReportQuery,
    Row,
    as_csv,
    as_json,
    ask,
    freshness,
    grant_views,
    keeping,
)  # fmt: skip
from readmodels.reports.reports import REPORTS


def add_commands(commands: Commands) -> None:
    report = commands.add_parser("report", help="what was received, is open, became of charges ...; production only")
    verbs = report.add_subparsers(title="reports", metavar="REPORT", required=True)
    for each in REPORTS.values():
        parser = verbs.add_parser(each.name, help=each.help)
        if each.dated:
            parser.add_argument("--from", dest="first", type=_day_argument, metavar="DAY", help="first day, YYYY-MM-DD")
            parser.add_argument("--to", dest="last", type=_day_argument, metavar="DAY", help="last day")
        if each.grouped:
            parser.add_argument("--by", choices=[each.value for each in By], default=each.by, help="what a row covers")
        parser.add_argument("--account", type=UUID, required=each.of_one_account, help="of this account only")
        parser.add_argument("--csv", action="store_true", help="for spreadsheets: UTF-8, ; and decimal comma")
        parser.set_defaults(run=show, report=each, each_cell=True)
    parser = verbs.add_parser("grant-role", help="let a database role read the views reporting_*")
    parser.add_argument("role")
    parser.set_defaults(run=grant)


def show(args: argparse.Namespace) -> int:
    return asyncio.run(_show_all(args) if takes_all(args) else _show(args))


def grant(args: argparse.Namespace) -> int:
    in_transaction(lambda conn: grant_views(conn, role=args.role), url="database_owner_url")
    return answer(args, {"role": args.role, "views": "reporting_*"})


def _query(args: argparse.Namespace, now: datetime) -> ReportQuery:
    return ask(
        args.report,
        today=day_of(now),
        first=getattr(args, "first", None),
        last=getattr(args, "last", None),
        account_id=args.account,
        by=By(getattr(args, "by", args.report.by)),
    )


def _head(report: Report, query: ReportQuery, fresh: Freshness | None) -> dict[str, Any]:
    head: dict[str, Any] = {"report": report.name, "title": report.title}
    if report.dated:
        head |= {"from": query.first, "to": query.last}
    head["account_id"] = query.account_id
    head["as_of"] = iso(fresh.as_of) if fresh else None
    head["lag_seconds"] = fresh.lag_seconds if fresh else None
    return head


async def _show(args: argparse.Namespace) -> int:
    now, report = datetime.now(UTC), args.report
    query = _query(args, now)
    # Written to a file first: a pager may block for hours, and vacuum removes nothing while the snapshot is held.
    with tempfile.TemporaryFile(prefix="quita-") as file:
        # One snapshot, so that all rows of a long report are of the same instant.
        async with (
            connected("database_report_url") as conn,
            conn.transaction(isolation="repeatable_read", readonly=True),
        ):
            await _check_account(conn, query.account_id)
            fresh = Freshness(as_of=now, lag_seconds=0) if report.live else await freshness(conn)
            await _write(args, file, report, _head(report, query, fresh), report.rows(keeping(conn), query))
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()
    return 0


async def _show_all(args: argparse.Namespace) -> int:
    """Shows one table over all cells; the rows of each cell are of one instant."""
    now, report = datetime.now(UTC), args.report
    query = _query(args, now)

    async def read(cell: CellAddress, conn: Any) -> tuple[Freshness | None, CellRows]:
        async with conn.transaction(isolation="repeatable_read", readonly=True):
            await _check_account(conn, None if report.spread else query.account_id)
            fresh = Freshness(as_of=now, lag_seconds=0) if report.live else await freshness(conn)
            return fresh, await read_cell(report, cell.name, keeping(conn), query)

    result = await ask_each(await cells_of(None if report.spread else args.account), read, reports=True)
    answers = [each.answer for each in result.answers]
    head = _head(report, query, oldest(fresh for fresh, _ in answers))
    head |= {"cells": [each.cell for each in result.answers], "away": result.away}
    table = report._replace(columns=columns_of_cells(report))
    await _write(
        args, sys.stdout.buffer, table, head, _iterate(merge_rows_of_cells(report, [rows for _, rows in answers]))
    )
    result.tell()
    return result.code


async def _check_account(conn: Any, account_id: UUID | None) -> None:
    """CannotRun for an id that no account has: it would be reported as an account that received nothing."""
    if account_id is not None and not await search_merchants(conn, str(account_id)):
        raise CannotRun(f"there is no account {account_id}")


async def _iterate(rows: Sequence[Row]) -> AsyncIterator[Row]:
    for row in rows:
        yield row


async def _write(
    args: argparse.Namespace, out: IO[bytes], report: Report, head: dict[str, Any], rows: AsyncIterator[Row]
) -> None:
    if args.csv:
        await _write_csv(out, report, rows)
    elif args.json:
        await _write_json(out, report, head, rows)
    else:
        await _write_table(out, report, head, rows)
    out.flush()


async def _write_csv(out: IO[bytes], report: Report, rows: AsyncIterator[Any]) -> None:
    out.write(BOM + csv_line([column.heading for column in report.columns]))
    async for row in rows:
        out.write(csv_line(as_csv(report, row)))


async def _write_json(out: IO[bytes], report: Report, head: dict[str, Any], rows: AsyncIterator[Any]) -> None:
    """Writes one JSON document, row by row as they are read."""
    out.write(msgspec.json.encode(head)[:-1] + b',"rows":[')
    comma = b""
    async for row in rows:
        out.write(comma + msgspec.json.encode(as_json(report, row)))
        comma = b","
    out.write(b"]}\n")


async def _write_table(out: IO[bytes], report: Report, head: dict[str, Any], rows: AsyncIterator[Any]) -> None:
    names = [column.name for column in report.columns]
    widths = [len(name) for name in names]
    right_aligned = [column.kind.is_number for column in report.columns]
    # A settlement may have millions of rows, and the width of a column is known after the last.
    with tempfile.TemporaryFile(prefix="quita-") as lines:
        async for row in rows:
            cells = [_printable(value) for value in as_json(report, row).values()]
            widths = [max(width, len(cell)) for width, cell in zip(widths, cells, strict=True)]
            lines.write(msgspec.json.encode(cells) + b"\n")

        def write_line(line: str) -> None:
            out.write(f"{line}\n".encode(sys.stdout.encoding, sys.stdout.errors or "strict"))

        write_line(_table_head(report, head))
        write_line(_table_line(names, widths, right_aligned))
        lines.seek(0)
        for line in lines:
            write_line(_table_line(msgspec.json.decode(line, type=list[str]), widths, right_aligned))


def _table_head(report: Report, head: dict[str, Any]) -> str:
    days = f", {head['from']} to {head['to']}" if report.dated else ""
    lag = (
        "the totals are still being made"
        if head["as_of"] is None
        else f"as of {head['as_of']}, {head['lag_seconds']} s behind"
    )
    cells = f", cells {', '.join(head['cells'])}" if "cells" in head else ""
    return f"{report.title}{days}{cells} ({lag})"


def _table_line(cells: Sequence[str], widths: Sequence[int], right_aligned: Sequence[bool]) -> str:
    return "  ".join(
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right_aligned, strict=True)
    ).rstrip()


def _printable(value: object) -> str:
    """The value on one line: a merchant's reference may contain line breaks and terminal control sequences."""
    return "" if value is None else "".join(each if each.isprintable() else " " for each in str(value))


def _day_argument(text: str) -> date:
    try:
        return parse_day(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a day as YYYY-MM-DD") from None
