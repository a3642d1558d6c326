"""`quita report NAME`: what the platform's people want to know, as a table, CSV or JSON. Production only."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import msgspec

from cli.answer import Commands, answer, connected, in_transaction
from domain.instants import iso, parse_day
from readmodels.reports.csv_lines import BOM, csv_line
from readmodels.reports.report import (
    By,
    ColumnKind,
    Freshness,
    Report,
    as_csv,
    as_json,
    ask,
    freshness,
    grant_views,
    keeping,
    today_at,
)  # fmt: skip
from readmodels.reports.reports import REPORTS

_RIGHT = (ColumnKind.MONEY, ColumnKind.COUNT, ColumnKind.RATIO)


def add_commands(commands: Commands) -> None:
    report = commands.add_parser("report", help="what was received, is open, became of charges ...; production only")
    verbs = report.add_subparsers(title="reports", metavar="REPORT", required=True)
    for each in REPORTS.values():
        one = verbs.add_parser(each.name, help=each.help)
        if each.dated:
            one.add_argument("--from", dest="first", type=_day, metavar="DAY", help="first day, YYYY-MM-DD")
            one.add_argument("--to", dest="last", type=_day, metavar="DAY", help="last day")
        if each.grouped:
            one.add_argument("--by", choices=tuple(By), default=By.DAY, help="what a row covers")
        one.add_argument("--account", type=UUID, required=each.of_one_account, help="of this account only")
        one.add_argument("--csv", action="store_true", help="for spreadsheets: UTF-8, ; and decimal comma")
        one.set_defaults(run=show, report=each)
    one = verbs.add_parser("grant-role", help="let a database role read the views reporting_*")
    one.add_argument("role")
    one.set_defaults(run=grant)


def show(args: argparse.Namespace) -> int:
    asyncio.run(_show(args))
    return 0


def grant(args: argparse.Namespace) -> int:
    in_transaction(lambda conn: grant_views(conn, role=args.role), url="database_owner_url")
    return answer(args, {"role": args.role, "views": "reporting_*"})


async def _show(args: argparse.Namespace) -> None:
    now, report = datetime.now(UTC), args.report
    asked = ask(
        report,
        today=today_at(now),
        first=getattr(args, "first", None),
        last=getattr(args, "last", None),
        account_id=args.account,
        by=By(getattr(args, "by", By.DAY)),
    )
    # One snapshot: all of a long report is of one instant.
    async with connected("database_report_url") as conn, conn.transaction(isolation="repeatable_read", readonly=True):
        head: dict[str, Any] = {"report": report.name, "title": report.title}
        if report.dated:
            head |= {"from": asked.first, "to": asked.last}
        fresh = Freshness(as_of=now, lag_seconds=0) if report.live else await freshness(conn)
        head["account_id"] = asked.account_id
        head["as_of"] = iso(fresh.as_of) if fresh else None
        head["lag_seconds"] = fresh.lag_seconds if fresh else None
        rows = report.rows(keeping(conn), asked)
        if args.csv:
            await _print_csv(report, rows)
        elif args.json:
            await _print_json(report, head, rows)
        else:
            await _print_table(report, head, rows)


async def _print_csv(report: Report, rows: AsyncIterator[Any]) -> None:
    out = sys.stdout.buffer
    out.write(BOM + csv_line([column.heading for column in report.columns]))
    async for row in rows:
        out.write(csv_line(as_csv(report, row)))
    out.flush()


async def _print_json(report: Report, head: dict[str, Any], rows: AsyncIterator[Any]) -> None:
    """One document, written as the rows come."""
    out = sys.stdout.buffer
    out.write(msgspec.json.encode(head)[:-1] + b',"rows":[')
    comma = b""
    async for row in rows:
        out.write(comma + msgspec.json.encode(as_json(report, row)))
        comma = b","
    out.write(b"]}\n")
    out.flush()


async def _print_table(report: Report, head: dict[str, Any], rows: AsyncIterator[Any]) -> None:
    lines = [[_cell(value) for value in as_json(report, row).values()] async for row in rows]
    names = [column.name for column in report.columns]
    widths = [max(map(len, column)) for column in zip(names, *lines, strict=True)]
    right = [column.kind in _RIGHT for column in report.columns]
    covered = f", {head['from']} to {head['to']}" if report.dated else ""
    lag = (
        "the totals are still being made"
        if head["as_of"] is None
        else f"as of {head['as_of']}, {head['lag_seconds']} s behind"
    )
    print(f"{report.title}{covered} ({lag})")
    for line in (names, *lines):
        print(_line(line, widths, right))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    return "  ".join(
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ).rstrip()


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _day(text: str) -> date:
    try:
        return parse_day(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a day as YYYY-MM-DD") from None
