"""Reports over a year, and a merchant's whole year as a file.

The bench measures how fast the journal is folded into daily totals, how fast each report answers and how many rows it
reads, and how much time and memory a CSV of all charges takes.
"""

import asyncio
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import aiohttp
import msgspec

from bench.environment import BenchEnvironment
from bench.report import Finding, rate
from bench.year import fold_all, write_year
from commands.merchants.merchants import MerchantCreated, create_merchant
from domain.instants import day_of
from readmodels.reports.report import Report, ReportQuery, keeping
from readmodels.reports.reports import REPORTS
from runtime.postgres import Pool, session
from sql import Connection

_CHARGES_A_SECOND = 5_000
_REPETITIONS = 5
_YEAR = timedelta(days=365)
# A settlement report covers a quarter at most (readmodels/reports/reports.py): a file of some hundred thousand lines.
_QUARTER = timedelta(days=91)
_FILE_S_MAX = 1_800
_SETTLE_S, _SETTLE_S_MAX = 5, 60


async def reports(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Uses a year with 5,000 charges per second of `seconds`: 100,000 by default, a million with --seconds 200."""
    charges = int(seconds * _CHARGES_A_SECOND)
    async with environment.database() as pool:
        async with session(pool) as conn:
            merchant = await create_merchant(
                conn, name="Padaria Aurora", address=True, kyc="approved", now=datetime.now(UTC)
            )
        rows = await write_year(pool, merchant.account_id, charges)
        began = time.perf_counter()
        await fold_all(pool)
        took_s = time.perf_counter() - began
        note = f"{rows:,} journal rows, {charges:,} charges of one merchant"
        findings = [rate("journal rows folded into daily totals", [rows / took_s], note=note)]
        async with session(pool) as conn:
            await conn.execute("SET statement_timeout = 0")
            await conn.execute("ANALYZE", timeout=600)
            await conn.execute("RESET statement_timeout")
        findings += await _report_findings(pool, merchant)
    with environment.api():
        findings += await _csv_findings(environment, merchant)
    return findings


async def _report_findings(pool: Pool, merchant: MerchantCreated) -> list[Finding]:
    """The slowest of _REPETITIONS answers of each report, over the longest period it allows, for one merchant
    and for all."""
    today = day_of(datetime.now(UTC))
    findings = []
    for report in REPORTS.values():
        if report.live and not report.dated:
            continue  # it shows the current state and has no period
        accounts = {"one merchant": merchant.account_id} | ({} if report.of_one_account else {"all": None})
        span, span_name = (_QUARTER, "a quarter") if report.live else (_YEAR, "a year")
        for account_name, account_id in accounts.items():
            query = ReportQuery(first=today - span, last=today, today=today, account_id=account_id)
            took_ms = 0.0
            for _ in range(_REPETITIONS):
                began = time.perf_counter()
                async with session(pool) as conn:
                    rows = await _count(report, conn, query)
                took_ms = max(took_ms, (time.perf_counter() - began) * 1000)
            async with session(pool) as conn:
                explaining = _ExplainingConnection(conn)
                await _count(report, cast(Connection, explaining), query)
            note = f"{rows:,} rows shown, slowest of {_REPETITIONS}; {explaining.plan_note()}"
            findings.append(Finding(f"{report.name} of {span_name}, {account_name}", took_ms, "ms", note=note))
    return findings


async def _count(report: Report, conn: Connection, query: ReportQuery) -> int:
    return len([row async for row in report.rows(keeping(conn), query)])


class _ExplainingConnection:
    """Stands in for a connection: runs each statement, and collects its plan too."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._plans: list[dict[str, Any]] = []

    async def fetch(self, text: str, *arguments: Any) -> list[Any]:
        await self._explain(text, arguments)
        return list(await self._conn.fetch(text, *arguments))

    async def fetchrow(self, text: str, *arguments: Any) -> Any:
        await self._explain(text, arguments)
        return await self._conn.fetchrow(text, *arguments)

    async def _explain(self, text: str, arguments: tuple[Any, ...]) -> None:
        raw = await self._conn.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {text}", *arguments)
        self._plans.append(msgspec.json.decode(raw)[0]["Plan"])

    def plan_note(self) -> str:
        scans = [node for plan in self._plans for node in _nodes(plan) if "Relation Name" in node]
        read = sum(
            node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) for node in scans
        )
        whole = sorted({node["Relation Name"] for node in scans if node["Node Type"] == "Seq Scan"})
        statements = f"{len(self._plans)} statement{'s' if len(self._plans) > 1 else ''}"
        return f"{statements}, {read:,.0f} rows read" + (f", ALL of {', '.join(whole)}" if whole else " along indexes")


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


async def _csv_findings(environment: BenchEnvironment, merchant: MerchantCreated) -> list[Finding]:
    """Downloads all charges of the merchant as the dashboard's CSV over HTTP, as fast as they come."""
    address = f"http://{environment.settings.host}:{environment.port}"
    # One kept-alive connection, so that sign-in, file and /bench/process reach the same process.
    connector = aiohttp.TCPConnector(limit=1)
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of a host that is an IP address
    timeout = aiohttp.ClientTimeout(total=_FILE_S_MAX)
    async with aiohttp.ClientSession(address, connector=connector, cookie_jar=jar, timeout=timeout) as browser:
        async with browser.get("/painel/entrar") as page:
            token = re.search(r'name="csrf" value="([^"]+)"', await page.text())
        assert token is not None
        form = {
            "csrf": token[1],
            "email": merchant.dashboard.email,
            "password": merchant.dashboard.password,
            "para": "",
        }
        async with browser.post("/painel/entrar", data=form, allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()
        async with browser.get("/bench/process") as answer:
            process = Path("/proc") / await answer.text()
        # A file of one day first, so that one-time loading does not count as the long file's memory.
        async with browser.get(f"/painel/cobrancas.csv?created_from={day_of(datetime.now(UTC))}") as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
        before_mb = await _settled_mb(process)
        lines = size = 0
        began = time.perf_counter()
        async with browser.get("/painel/cobrancas.csv") as answer:
            assert answer.status == 200, await answer.text()
            async for chunk in answer.content.iter_any():
                lines += chunk.count(b"\r\n")
                size += len(chunk)
        took_s = time.perf_counter() - began
        note = f"{lines - 1:,} charges, {size / 1e6:,.0f} MB, {(lines - 1) / took_s:,.0f} a second"
        findings = [Finding("the charges of a year as CSV", took_s, "s", note=note)]
        if before_mb is not None:
            grown_mb = (_memory_mb(process) or 0.0) - before_mb
            note = f"the most it held, over {before_mb:,.0f} MB before"
            findings.append(Finding("memory of the process that writes it", grown_mb, "MB", note=note))
        return findings


async def _settled_mb(process: Path) -> float | None:
    """The process' memory once it has loaded what every process loads in its first seconds, with or without files."""
    held_mb = _memory_mb(process)
    for _ in range(_SETTLE_S_MAX // _SETTLE_S):
        await asyncio.sleep(_SETTLE_S)
        before_mb, held_mb = held_mb, _memory_mb(process)
        if before_mb == held_mb:
            break
    return held_mb


def _memory_mb(process: Path) -> float | None:
    """The peak memory of a process in MB; None on systems without /proc."""
    if sys.platform != "linux":
        return None
    peak = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text(encoding="ascii"))
    assert peak is not None
    return int(peak[1]) / 1024
