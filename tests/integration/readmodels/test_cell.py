"""A cell is a database and a schema: every table is found by search_path, and none lies in another schema."""

import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import sql
from readmodels.rebuild import rebuild
from readmodels.reports.fold import fold_up_to, wait_for_horizon
from readmodels.verify import verify
from runtime.postgres import open_pool
from sql.migrate import migrate
from sql.migration_files import MIGRATIONS
from sql.snapshot import snapshot
from tests.support.database import own_database, owner_of, report_of
from tests.support.in_process import open_api

CELL = "cell_7"
SCHEMA = Path(sql.__file__).parent.parent / "docs" / "schema.sql"
QUERIES = sorted((Path(sql.__file__).parent / "queries").glob("**/*.sql"))
_ELSEWHERE = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname !~ '^(pg_|information_schema$)' AND n.nspname <> $1
"""


def bare(text: str) -> str:
    """Returns the SQL without comments and string literals."""
    return re.sub(r"--[^\n]*|'[^']*'", "", text)


async def test_a_cell_works_in_a_schema_of_its_own(servers: Any) -> None:
    async with own_database(servers, "cell", migrated=False) as url:
        owner_url = owner_of(servers, url)
        admin = await asyncpg.connect(owner_url)
        await admin.execute(f"CREATE SCHEMA {CELL}")
        cell = f"{url}?search_path={CELL}"
        await migrate(f"{owner_url}?search_path={CELL}", app_url=cell, report_url=report_of(servers, cell))
        async with open_api(cell, servers.redis_url) as api:
            token = await api.token(api.first)
            body = {"account_id": str(api.first.account_id), "amount": "10.00"}
            for key in ("first", "second"):
                made = await api.post("/v1/charges/pix", body, token=token, key=key)
                assert made.status == 201, made
            charge = f"/v1/charges/{made.json()['charge_id']}"
            paid = await api.post(f"{charge}/simulate-payment", None, token=token)
            assert paid.status == 200, paid
            assert (await api.get(charge, token=token)).json()["status"] == "paid"
        pool = await open_pool(cell, name="tests", size=2)
        async with pool.acquire() as worker:
            horizon = await wait_for_horizon(worker)
            assert horizon is not None
            async with worker.transaction():
                assert await fold_up_to(worker, horizon) == 3
            assert await worker.fetchval("SELECT count(*) FROM read_event") == 1
            assert await snapshot(worker) == SCHEMA.read_text(encoding="utf-8")
        await pool.close()
        assert await verify(cell) == []
        assert (await rebuild(cell))["read_charge"] == 2
        assert await verify(cell) == []
        assert await admin.fetch(_ELSEWHERE, CELL) == []
        await admin.close()


@pytest.mark.parametrize("path", [*sorted(MIGRATIONS.rglob("*.sql")), *QUERIES], ids=lambda path: path.stem)
def test_no_statement_names_a_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bpublic\.|\bSCHEMA\b(?! %I)|SET search_path(?! = %I)", re.sub(r"--[^\n]*", "", text))
    named = re.findall(r"(?<!DISTINCT )(?<!epoch )\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(\w+)\.", bare(text))
    assert set(named) <= {"pg_temp"}


@pytest.mark.parametrize("name", sorted(name for name, each in sql.STATEMENTS.items() if "INSERT INTO" in each.text))
def test_an_insert_reads_tables_only_through_a_materialized_cte(name: str) -> None:
    """Citus deparses an INSERT .. SELECT from a table wrongly when the schema lies on another node."""
    text = bare(sql.STATEMENTS[name].text)
    ctes = set(re.findall(r"(\w+) AS (?:MATERIALIZED )?\(", text))
    for insert in re.finditer(r"INSERT INTO \w+(?: AS \w+)? \([^)]*\)", text):
        depth, body = 0, ""
        for character in text[insert.end() :]:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth < 0:
                break
            body += character
        read = re.findall(r"\b(?:FROM|JOIN|TABLE)\s+(?!LATERAL|unnest)(?<!epoch FROM )(\w+)\b(?!\s*[.(])", body)
        assert set(read) <= ctes, body
