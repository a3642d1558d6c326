"""The request log shows a merchant's people what their programs asked, without personal data and without secrets."""

import asyncio
import gc
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace

import api.request_log as request_log
import readmodels.dashboard.request_log as read_log
import sql
from api.callers import Caller
from api.exchange import Exchange
from api.request_log import LoggedRequest, RequestLog
from api.route import Call
from domain.mode import Mode, Owner
from readmodels.dashboard.request_log import RequestFilters, RequestPosition, StatusClass, request_page
from readmodels.page import SortOrder
from runtime.ids import new_id, new_token
from runtime.postgres import Pool
from tests.support.counting import calls_made
from tests.support.dashboard import Person, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.in_process import Api, bearer
from tests.support.pages import serving
from workers.housekeeping import request_log_days
from workers.housekeeping.request_log_days import AHEAD, keep_days

LIST = "/painel/requisicoes"


class _UncountedPool:
    """The part of a pool that counts its connections (runtime/postgres.py), without counting."""

    in_use = 0

    def wanted(self) -> float:
        return 0.0

    def got(self, wanted_at: float) -> None:
        """The test reads no count."""


@pytest.fixture(scope="module", autouse=True)
def written_when_asked() -> Iterator[None]:
    """The log's own task, once a second, may have taken rows that it has not stored yet when a test reads them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_log, "EVERY_S", 3_600.0)
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), settings_with()) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def owner(address: str, api: Api) -> AsyncIterator[Person]:
    async with owner_in_browser(address, api.first) as person:
        yield person


def _caller(account_id: UUID, *, test: bool = False, client_id: str = "production_1") -> Caller:
    return Caller(
        token_hash=bytes(32), client_id=client_id, account_id=account_id, test=test, scopes=[],
        expires_at=datetime.now(UTC), approved=True, name="", city="", pix_key="", rate_per_s=None, rate_burst=None,
    )  # fmt: skip


def _asked(caller: Caller, *, path: str = "/v1/charges", at: float | None = None) -> LoggedRequest:
    return LoggedRequest(caller, at or time.time(), f"req_{new_token()}", "GET", path, 200, 0.001)


async def _write_log(api: Api) -> None:
    await api.app.state.context.request_log._write()


async def _insert_requests(
    pool: Pool, account_id: UUID, rows: int, *, path: str = "/v1/charges", status: int = 200
) -> None:
    """Inserts `rows` requests of the last hour, one a millisecond, oldest first."""
    await pool.execute(
        "INSERT INTO request_log (account_id, test, at, request_id, client_id, method, path, status, duration_us)"
        " SELECT $1::uuid, false, now() - interval '1 hour' + n * interval '1 ms',"
        "        'req_' || md5($1::uuid::text || $3::text || $4::smallint || n),"
        "        'production_' || n % 3, 'GET', $3::text, $4::smallint, 1000 FROM generate_series(1, $2) AS n",
        account_id, rows, path, status,
    )  # fmt: skip


async def test_a_request_is_found_by_its_id_with_its_outcome_but_without_its_content(
    api: Api, owner: Person, pool: Pool
) -> None:
    token = await api.token(mode="production")
    word = secrets.token_hex(8)
    made = await api.post("/v1/charges/pix", api.pix(description=word), token=token, key=word)
    refused = await api.post("/v1/charges/pix", api.pix(amount="0", description=word), token=token, key="x")
    looked = await api.get(f"/v1/charges?external_id={word}", token=token)
    nobody = await api.get("/v1/charges", token="nobody")
    await _write_log(api)
    for reply, method, path, code in (
        (made, "POST", "/v1/charges/pix", None),
        (refused, "POST", "/v1/charges/pix", "AMOUNT_INVALID"),
        (looked, "GET", "/v1/charges", None),
    ):
        request_id = reply.header("x-request-id")
        went = await owner.get(f"{LIST}?requisicao={request_id}")
        assert went.where == f"{LIST}/{request_id}"
        page = await owner.opened(f"{LIST}/{request_id}")
        assert f"{method} {path}" in page.text
        assert f"Resposta {reply.status}" in page.text
        assert (code or "") in page.text
        assert api.first.production.client_id in page.text
        # The other mode's list does not have it.
        assert (await owner.get(f"/painel/teste/requisicoes/{request_id}")).status == 404
    rows = await pool.fetch("SELECT * FROM request_log WHERE account_id = $1", api.first.account_id)
    assert word not in str(rows)
    assert (await owner.get(f"{LIST}/{nobody.header('x-request-id')}")).status == 404
    missing = await owner.get(f"{LIST}?requisicao=req_none")
    assert (missing.status, "Não há requisição" in missing.text) == (400, True)


async def test_a_refusal_is_logged_with_its_reasons_and_a_creation_with_its_resource(api: Api, owner: Person) -> None:
    token = await api.token()
    agent = (b"user-agent", "loja/1.2 \xe9".encode("latin-1"))
    made = await api.post("/v1/charges/pix", api.pix(), token=token, key=secrets.token_hex(8))
    body = api.pix() | {"external_id": 7, "metadata": {"52998224725 Ana": 1}}
    wrong = await api.ask(
        "POST",
        "/v1/charges/pix",
        headers=[*bearer(token), (b"content-type", b"application/json"), (b"idempotency-key", b"k"), agent],
        body=msgspec.json.encode(body),
    )
    await _write_log(api)
    page = await owner.opened(f"/painel/teste/requisicoes/{made.header('x-request-id')}")
    assert made.header("location") == f"/v1/charges/{made.json()['charge_id']}"
    assert f"/painel/teste/cobrancas/{made.json()['charge_id']}" in page.html
    error = wrong.json()["error"]
    page = await owner.opened(f"/painel/teste/requisicoes/{wrong.header('x-request-id')}")
    assert error["message"] in page.text
    assert "external_id" in {each["field"] for each in error["fields"]}, error
    assert any("52998224725" in each["field"] for each in error["fields"]), error
    assert "external_id" in page.text
    assert "loja/1.2 é" in page.text
    # A document number that was sent as the name of a field is not logged.
    assert "52998224725" not in page.text
    listed = (await api.get("/v1/requests?status=4xx&limit=1", token=token)).json()["data"][0]
    assert (listed["message"], listed["user_agent"], listed["resource"]) == (error["message"], "loja/1.2 é", None)
    assert {each["field"] for each in listed["fields"]} == {"external_id", "?"}
    newest = (await api.get("/v1/requests?limit=5", token=token)).json()["data"]
    assert [each["resource"] for each in newest if each["request_id"] == made.header("x-request-id")] == [
        made.header("location")
    ]


async def test_a_refusal_before_the_handler_is_logged_too(api: Api, owner: Person) -> None:
    token = await api.token(scope="charges:read")
    unscoped = await api.post("/v1/charges/pix", api.pix(), token=token, key="k")
    unkeyed = await api.post("/v1/charges/pix", api.pix(), token=await api.token())
    await _write_log(api)
    for reply, code in ((unscoped, "INSUFFICIENT_SCOPE"), (unkeyed, "IDEMPOTENCY_KEY_REQUIRED")):
        page = await owner.opened(f"/painel/teste/requisicoes/{reply.header('x-request-id')}")
        assert code in page.text


async def test_another_account_and_roles_without_programs_cannot_read_the_log(
    api: Api, address: str, pool: Pool, owner: Person
) -> None:
    reply = await api.get("/v1/charges", token=await api.token(mode="production"))
    await _write_log(api)
    path = f"{LIST}/{reply.header('x-request-id')}"
    assert (await owner.get(path)).status == 200
    async with owner_in_browser(address, api.second) as stranger:
        assert (await stranger.get(path)).status == 404
        assert "/v1/charges" not in (await stranger.opened(LIST)).text
    for role, status in (("developer", 200), ("finance", 403), ("support", 403)):
        async with colleague_in_browser(pool, address, api.first, role) as colleague:
            assert (await colleague.get(LIST)).status == status, role
            assert (await colleague.get(path)).status == status, role


async def test_an_answered_request_is_gone_before_the_garbage_collector_looks(api: Api) -> None:
    """A cycle would hold its body, of up to 256 KiB, for hundreds of further requests."""
    token = await api.token()
    asked: list[tuple[str, Any, int]] = [
        ("/v1/charges/pix", api.pix("-1"), 400),
        ("/v1/charges/pix", {"amount": 1}, 400),
        ("/v1/charges/boleto", {"tipo": "boleto"}, 400),
        ("/v1/charges/cancel", {"external_id": secrets.token_hex(8)}, 404),
        (f"/v1/charges/{(await api.create())['charge_id']}/simulate-payment", None, 200),
    ]
    for path, given, status in asked:
        gc.collect()
        gc.disable()
        try:
            reply = await api.post(path, given, token=token, key=secrets.token_hex(8))
            left = [each for each in gc.get_objects() if isinstance(each, (Exchange, Call))]
        finally:
            gc.enable()
        assert (reply.status, left) == (status, []), path
        logged = api.app.state.context.request_log._rows[-1].refused
        assert logged is None or (logged.__traceback__, logged.__context__) == (None, None), path


async def test_paging_shows_every_request_once_and_filters_select_the_right_ones(pool: Pool) -> None:
    account_id = new_id()
    await _insert_requests(pool, account_id, 130)
    await _insert_requests(pool, account_id, 7, path="/v1/refunds", status=422)
    await _insert_requests(pool, account_id, 3, path="/v1/charges/pix", status=503)

    async def walked(filters: RequestFilters, order: SortOrder = SortOrder.DESC) -> list[str]:
        found: list[str] = []
        after: RequestPosition | None = None
        for _ in range(40):
            async with pool.acquire() as conn:
                rows, after = await request_page(
                    conn, Owner(account_id, Mode.PRODUCTION), replace(filters, order=order), after, 25
                )
            found += [f"{row.at.isoformat()} {row.request_id}" for row in rows]
            if after is None:
                return found
        raise AssertionError("the pages have no end")

    whole = await walked(RequestFilters())
    assert len(whole) == len(set(whole)) == 140
    assert whole == sorted(whole, reverse=True) == (await walked(RequestFilters(), SortOrder.ASC))[::-1]
    assert len(await walked(RequestFilters(status=StatusClass.FINE))) == 130
    assert len(await walked(RequestFilters(status=StatusClass.REFUSED))) == 7
    assert len(await walked(RequestFilters(status=StatusClass.BROKEN))) == 3
    assert len(await walked(RequestFilters(path="/v1/ref"))) == 7
    assert len(await walked(RequestFilters(path="/v1/charges", status=StatusClass.BROKEN))) == 3
    assert len(await walked(RequestFilters(client_id="production_1"))) == 44 + 3 + 1
    now = datetime.now(UTC)
    assert await walked(RequestFilters(to_at=now - timedelta(hours=2))) == []
    assert len(await walked(RequestFilters(from_at=now - timedelta(hours=2), to_at=now))) == 140


async def test_a_rare_request_is_reached_in_bounded_steps(
    pool: Pool, table_owner: Pool, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_log, "SCANNED_MAX", 50)
    merchant = await a_merchant(pool)
    await _insert_requests(pool, merchant.account_id, 1, path="/v1/balance")
    await table_owner.execute(
        "UPDATE request_log SET at = at - interval '1 minute' WHERE account_id = $1", merchant.account_id
    )
    await _insert_requests(pool, merchant.account_id, 170)
    async with owner_in_browser(address, merchant) as person:
        page = await person.opened(f"{LIST}?caminho=/v1/balance")
        steps = 0
        while "GET /v1/balance" not in page.text:
            assert "Há mais a procurar" in page.text
            steps += 1
            link = page.html.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
            page = await person.opened(LIST + link)
        assert steps == 3


async def test_an_invalid_filter_is_answered_400_and_an_invalid_request_id_404(owner: Person) -> None:
    for query in ("situacao=9xx", "dia=ontem", "caminho=" + "x" * 300, "chave=%00"):
        assert (await owner.get(f"{LIST}?{query}")).status == 400, query
    for odd in ("%00", "é", "x" * 3000, "req_'--"):
        assert (await owner.get(f"{LIST}/{odd}")).status == 404, odd


# How the log is written


async def test_logged_requests_are_written_together_at_the_end_of_the_interval(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "EVERY_S", 3.0)  # Long enough to see that nothing is written before its end.
    account_id, log = new_id(), RequestLog(pool)
    for _ in range(1_200):
        log.add(_asked(_caller(account_id)))
    count = "SELECT count(*) FROM request_log WHERE account_id = $1"
    assert await pool.fetchval(count, account_id) == 0
    async with asyncio.timeout(30):
        while await pool.fetchval(count, account_id) < 1_200:  # noqa: ASYNC110 - it writes on its own clock
            await asyncio.sleep(0.05)
    await log.close()
    assert await pool.fetchval(count, account_id) == 1_200


async def test_rows_wait_while_the_database_is_down_and_rows_beyond_the_bound_are_counted(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "EVERY_S", 0.02)
    account_id, caller, down = new_id(), _caller(new_id()), True

    class Pausing(_UncountedPool):
        def acquire(self, **given: Any) -> Any:
            if down:
                raise OSError
            return pool.acquire(**given)

    log: Any = RequestLog(Pausing())  # type: ignore[arg-type]
    caller = _caller(account_id)
    before = request_log.dropped_total._value.get()
    for _ in range(request_log.ROWS_MAX + 5):
        log.add(_asked(caller))
    await asyncio.sleep(0.1)
    assert len(log._rows) == request_log.ROWS_MAX
    assert request_log.dropped_total._value.get() - before == 5
    del log._rows[50:]
    down = False
    async with asyncio.timeout(30):
        while log._rows:  # noqa: ASYNC110 - it writes on its own clock
            await asyncio.sleep(0.02)
    await log.close()
    assert await pool.fetchval("SELECT count(*) FROM request_log WHERE account_id = $1", account_id) == 50


async def test_paths_with_odd_characters_are_logged_as_text(pool: Pool) -> None:
    log, account_id = RequestLog(pool), new_id()
    for path in ("/v1/charges/\x00", "/v1/\ud800", "/v1/" + "é" * 500):
        log.add(_asked(_caller(account_id), path=path))
    await log.close()
    assert await pool.fetchval("SELECT count(*) FROM request_log WHERE account_id = $1", account_id) == 3


async def test_logging_a_request_costs_fewer_than_twelve_calls(pool: Pool) -> None:
    log, caller = RequestLog(pool), _caller(new_id())
    requests = [_asked(caller) for _ in range(2_000)]
    log.add(_asked(caller))  # The first row starts the task that writes.

    def note() -> None:
        for each in requests:
            log.add(each)

    made = calls_made(note)
    log._rows.clear()
    await log.close()
    assert made / 2_000 < 12, "more than reading a time, counting and appending a row"


# How long it is kept, and what reading it costs


async def test_partitions_are_created_ahead_and_dropped_after_thirty_days(
    pool: Pool, table_owner: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    account_id = new_id()
    far = datetime(2031, 5, 1, 12, tzinfo=UTC)

    async def days() -> set[str]:
        rows = await pool.fetch(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = 'request_log'::regclass AND c.relname LIKE 'request_log_2031%'"
        )
        return {row["relname"] for row in rows}

    async def kept(at: datetime) -> None:
        # The test works in 2031, so that only its own days become old enough to be dropped.
        async with pool.acquire() as conn, conn.transaction():
            await conn.fetchval("SELECT request_log_make_days($1::date, $2::date)", at.date(), (at + AHEAD).date())

    async def make_too_slowly(conn: Any, **_: Any) -> int:
        await conn.execute("SET LOCAL statement_timeout = 1")
        return int(await conn.fetchval("SELECT count(*) FROM pg_sleep(60)"))

    await kept(far)
    assert len(await days()) == AHEAD.days + 1
    await kept(far)
    assert len(await days()) == AHEAD.days + 1
    insert = (
        "INSERT INTO request_log (account_id, test, at, request_id, client_id, method, path, status, duration_us)"
        " VALUES ($1, false, $2, $3, 'c', 'GET', '/', 200, 1)"
    )
    await pool.execute(insert, account_id, far, "req_1")
    # A row of a day without partition is still stored; that day gets no partition afterwards.
    late = far + timedelta(days=20)
    await pool.execute(insert, account_id, late, "req_2")
    await kept(late)
    assert f"request_log_{date(2031, 5, 21):%Y_%m_%d}" not in await days()
    assert f"request_log_{date(2031, 5, 22):%Y_%m_%d}" in await days()
    async with pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        try:
            context: Any = SimpleNamespace(pool=_PoolOfOneConnection(conn), now=lambda: far + timedelta(days=32))
            assert await keep_days(context) > 0
            left = await conn.fetch("SELECT request_id FROM request_log WHERE account_id = $1", account_id)
            assert [row["request_id"] for row in left] == ["req_2"]
            assert await conn.fetchval("SELECT to_regclass('request_log_2031_05_01')") is None
            # That day's requests go later, a bounded number at a time, and no day waits for them.
            await conn.execute(insert, account_id, late, "req_3")
            await conn.execute(insert, account_id, far + timedelta(days=21), "req_4")
            context.now = lambda: late + timedelta(days=32)
            monkeypatch.setattr(request_log_days, "ROWS_MAX", 1)
            assert await keep_days(context) > 1
            assert await conn.fetchval("SELECT to_regclass('request_log_2031_05_22')") is None
            monkeypatch.setattr(request_log_days, "make", make_too_slowly)
            assert [await keep_days(context) for _ in range(2)] == [1, 0]
        finally:
            await transaction.rollback()
    for name in await days():
        await table_owner.execute(f"DROP TABLE {name}")
    await table_owner.execute("DELETE FROM request_log WHERE account_id = $1", account_id)


class _PoolOfOneConnection(_UncountedPool):
    """A pool that hands out one connection, so that all transactions nest in that of the test."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def acquire(self, **_: Any) -> Any:
        conn = self._conn

        class Held:
            async def __aenter__(self) -> Any:
                return conn

            async def __aexit__(self, *_: object) -> None:
                return None

        return Held()


@pytest.mark.parametrize("name", ["all", "refused", "broken"])
async def test_a_page_walks_an_index_and_reads_no_more_rows_than_its_bound(
    pool: Pool, table_owner: Pool, name: str
) -> None:
    account_id = new_id()
    await _insert_requests(pool, account_id, 12_000, status={"all": 200, "refused": 404, "broken": 500}[name])
    await table_owner.execute("ANALYZE request_log")
    given = {
        "account_id": account_id, "test": False, "at": datetime.now(UTC), "id": "", "path": "/none", "client_id": "",
        "low": 100, "high": 599, "look": read_log.SCANNED_MAX, "limit": 27,
        "from_at": datetime.now(UTC) - timedelta(days=30),
        "to_at": datetime.now(UTC),
    }  # fmt: skip
    for order in SortOrder:
        statement = sql.STATEMENTS[f"request_log.page_{order.value}{'' if name == 'all' else f'+{name}'}"]
        values = given | {"at": datetime.now(UTC) - timedelta(days=1)} if order is SortOrder.ASC else given
        plan = await pool.fetchval(
            f"EXPLAIN (ANALYZE, FORMAT JSON, COSTS off, TIMING off, SUMMARY off) {statement.text}",
            *[values[each] for each in statement.parameters],
        )
        scans = [node for node in _nodes(msgspec.json.decode(plan)[0]["Plan"]) if "Relation Name" in node]
        assert scans
        assert all(node["Node Type"] in ("Index Scan", "Index Only Scan") for node in scans), scans
        looked = sum(node["Actual Rows"] * node["Actual Loops"] for node in scans)
        # The first row of each day's index is read as well, to find the newest of all.
        assert read_log.SCANNED_MAX <= looked <= read_log.SCANNED_MAX + len(scans), (order, looked)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from _nodes(below)


async def test_one_in_a_hundred_requests_of_a_flooding_account_is_logged_and_all_of_others(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "ROWS_OF_ACCOUNT_MAX", 50)
    log, flood, other = RequestLog(pool), _caller(new_id()), _caller(new_id())
    for _ in range(1_000):
        log.add(_asked(flood))
    log.add(_asked(other))
    kept = [row[0].account_id for row in log._rows]
    assert (kept.count(flood.account_id), kept.count(other.account_id)) == (50 + 10, 1)
    assert len(log._rows) == 61
    # The next day counts anew.
    log.add(_asked(flood, at=86_400.0 * 40_000))
    assert len(log._rows) == 62
    log._rows.clear()
    await log.close()
