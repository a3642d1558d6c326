# ruff: noqa: S608 - the names are of our own tables
"""The application's role and the reading role may do exactly what sql/roles.py says; the tests connect as these
roles."""

import re
import secrets
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import pytest_asyncio

import sql
from commands.sealed import SEALED
from runtime.postgres import connect
from sql.migrate import migrate
from sql.roles import RIGHTS, SEQUENCES, CannotGrant, role_of
from tests.support.database import own_database, owner_of, report_of

_RELATIONS = """
SELECT relname::text AS name, relkind::text AS kind FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = ANY($1::text[]::"char"[]) AND NOT relispartition
"""
_COLUMNS = """
SELECT c.relname::text AS relation, a.attname::text AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
  AND a.attnum > 0 AND NOT a.attisdropped
"""
SECRET = re.compile(r"sealed$|secret|hash$|password|token|totp_step|fingerprint|code_hash")
NO_SECRET = {
    ("credential", "last_token_at"),
    # A keyed hash of an IP address; an auditor needs whole rows to compute the digests of the chain.
    ("audit", "address_hash"),
}
"""Columns whose names look like those of secrets, but which hold none."""

DENIED = asyncpg.InsufficientPrivilegeError

APP_MAY_NOT = (
    *(
        statement
        for table in ("journal", "seal", "audit")
        for statement in (
            f"UPDATE {table} SET {'digest = digest' if table == 'seal' else 'request_id = request_id'}",
            f"DELETE FROM {table}",
            f"TRUNCATE {table}",
            f"SELECT FROM {table} FOR UPDATE",
            f"ALTER TABLE {table} DISABLE TRIGGER USER",
            f"ALTER TABLE {table} DISABLE TRIGGER ALL",
            f"DROP TRIGGER {table}_is_kept ON {table}",
            f"CREATE RULE none AS ON INSERT TO {table} DO INSTEAD NOTHING",
            f"DROP TABLE {table}",
            f"ALTER TABLE {table} OWNER TO CURRENT_USER",
        )
    ),
    *(
        f"DELETE FROM {table}"
        for table in ("account", "charge", "payment", "refund", "withdrawal", "partner_share", "payment_reversal")
    ),
    "UPDATE payment_reversal SET amount_cents = 1",
    "INSERT INTO migration (name) VALUES ('0999_mine')",
    "DELETE FROM migration",
    "SET session_replication_role = replica",
    "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TABLE mine (n integer)",
    "CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE SCHEMA mine",
    "DROP TABLE read_event_sandbox_other",
    "DELETE FROM request_log_other",
    "SELECT setval('boleto_control', 1)",
    "SELECT setval('journal_journal_id_seq', 1)",
    "CREATE ROLE mine SUPERUSER",
    "COPY account TO PROGRAM 'cat'",
    "SELECT pg_read_file('PG_VERSION')",
)


@pytest.fixture(autouse=True)
def _roles_differ(servers: Any) -> None:
    if len({servers.owner_url, servers.database_url, servers.report_url}) < 3:
        pytest.skip("the database given has one role for everything")


@pytest_asyncio.fixture(loop_scope="session")
async def reader(servers: Any) -> AsyncIterator[Any]:
    conn = await connect(servers.report_url)
    yield conn
    await conn.close()


async def test_every_table_view_and_sequence_is_listed_with_its_rights(table_owner: Any) -> None:
    rows = await table_owner.fetch(_RELATIONS, ["r", "p", "v"])
    partitions = await table_owner.fetch("SELECT relname::text AS name FROM pg_class WHERE relispartition")
    # A partition has the rights of its table, unless the application writes it by its own name.
    assert {row["name"] for row in rows} == set(RIGHTS) - {row["name"] for row in partitions}
    sequences = {row["name"] for row in await table_owner.fetch(_RELATIONS, ["S"])}
    numbering = {
        row["name"]
        for row in await table_owner.fetch(
            "SELECT s.relname::text AS name FROM pg_class s JOIN pg_depend d ON d.objid = s.oid AND d.deptype = 'i'"
            " AND d.classid = 'pg_class'::regclass WHERE s.relkind = 'S'"
        )
    }
    assert sequences - numbering <= set(SEQUENCES) <= sequences


async def test_the_reading_role_may_read_every_view_for_analysts(table_owner: Any) -> None:
    views = [row["name"] for row in await table_owner.fetch(_RELATIONS, ["v"])]
    assert {name for name in views if name.startswith("reporting_")} == {
        name for name in views if RIGHTS[name].hidden is not None
    }


@pytest.mark.parametrize("statement", APP_MAY_NOT)
async def test_the_application_role_is_denied_every_forbidden_statement(conn: Any, statement: str) -> None:
    with pytest.raises(DENIED):
        async with conn.transaction():
            await conn.execute(statement)


async def test_the_application_role_cannot_become_the_owner(conn: Any, servers: Any) -> None:
    for statement in (
        f"SET ROLE {role_of(servers.owner_url)}",
        f"SET SESSION AUTHORIZATION {role_of(servers.owner_url)}",
    ):
        with pytest.raises(DENIED):
            async with conn.transaction():
                await conn.execute(statement)
    assert await conn.fetchval(
        "SELECT NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls OR rolreplication) FROM pg_roles"
        " WHERE rolname = current_user"
    )
    owned = "SELECT count(*) FROM pg_class WHERE pg_get_userbyid(relowner) = current_user AND relpersistence <> 't'"
    assert await conn.fetchval(owned) == 0


@pytest.mark.parametrize("name", sorted(sql.STATEMENTS))
async def test_the_application_role_may_run_each_of_its_statements(conn: Any, name: str) -> None:
    """EXPLAIN fails for a role that may not run the statement."""
    if name.startswith(("roles.", "cell_owner.")):
        pytest.skip("the owner's")
    if name.startswith(("verify", "rebuild", "shadow")):  # These statements use tables that exist only during a run.
        await conn.execute(sql.STATEMENTS["shadow.order"].text)
        for shadow in (each for each in sql.STATEMENTS if each.startswith("shadow.make+")):
            await conn.execute(sql.STATEMENTS[shadow].text)
    if name in ("shadow.plans_anew", "shadow.real_kept", "shadow.order"):
        pytest.skip("has no plan")
    if name in ("recovery.begin", "recovery.compared", "recovery.release"):
        pytest.skip("the owner's: quita recover")
    if name.startswith("account_file."):
        pytest.skip("the owner's: quita account")
    if name == "report.grant":
        pytest.skip("the owner's: quita report grant-role")
    await conn.execute(f"EXPLAIN (GENERIC_PLAN) {sql.STATEMENTS[name].text}")


@pytest.mark.parametrize("name", sorted(name for name in sql.STATEMENTS if name.startswith("report.")))
async def test_the_reading_role_may_run_every_report(reader: Any, name: str) -> None:
    if name != "report.grant":
        await reader.execute(f"EXPLAIN (GENERIC_PLAN) {sql.STATEMENTS[name].text}")


async def test_the_reading_role_reads_every_column_that_is_not_hidden(reader: Any, table_owner: Any) -> None:
    for row in await table_owner.fetch(_COLUMNS):
        hidden = RIGHTS[row["relation"]].hidden
        if hidden is not None and row["name"] not in hidden:
            await reader.fetch(f'SELECT "{row["name"]}" FROM {row["relation"]} LIMIT 0')


async def test_the_reading_role_reads_no_sealed_column_and_no_hash_of_a_secret(reader: Any, table_owner: Any) -> None:
    columns = {(row["relation"], row["name"]) for row in await table_owner.fetch(_COLUMNS)}
    secret = {(each.table, each.column) for each in SEALED}
    assert secret <= columns
    secret |= {(relation, name) for relation, name in columns if SECRET.search(name)} - NO_SECRET
    secret |= {("charge_view", "doc"), ("payment_view", "doc"), ("bank_callback", "url")}
    for relation, name in sorted(secret):
        assert not await reader.fetchval("SELECT has_column_privilege($1, $2, 'SELECT')", relation, name), (
            relation,
            name,
        )
        with pytest.raises(DENIED):
            await reader.fetch(f'SELECT "{name}" FROM {relation} LIMIT 1')


async def test_the_reading_role_writes_nothing(reader: Any, table_owner: Any) -> None:
    for row in await table_owner.fetch(_RELATIONS, ["r", "p", "v"]):
        for privilege in ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"):
            assert not await reader.fetchval("SELECT has_table_privilege($1, $2)", row["name"], privilege), row
        for statement in (f"DELETE FROM {row['name']}", f"INSERT INTO {row['name']} DEFAULT VALUES"):
            with pytest.raises((DENIED, asyncpg.ObjectNotInPrerequisiteStateError)):
                await reader.execute(statement)
    for statement in (
        "CREATE TABLE mine (n integer)", "CREATE TEMPORARY TABLE mine (n integer)", "TRUNCATE journal",
        "ALTER TABLE journal DISABLE TRIGGER USER", "SELECT nextval('boleto_control')",
        "SELECT make_months('read_event_sandbox', '2030-01-01', '2030-01-01')",
        "SELECT detach_months('read_event_sandbox', now())",
        "SELECT drop_months('webhook_attempt', now())",
        "SELECT request_log_make_days('2030-01-01', '2030-01-01')", "SELECT request_log_forget_days(now(), 1, 1)",
        "SELECT reporting_grant('pg_read_all_data')",
    ):  # fmt: skip
        with pytest.raises(DENIED):
            await reader.execute(statement)


# Functions that run with the owner's rights


async def test_functions_with_owner_rights_have_a_fixed_search_path(table_owner: Any) -> None:
    rows = await table_owner.fetch(
        "SELECT proname, proconfig, has_function_privilege('public', oid, 'EXECUTE') AS anybodys FROM pg_proc"
        " WHERE pronamespace = current_schema()::regnamespace AND prosecdef"
    )
    assert {row["proname"] for row in rows} == {
        "make_months", "detach_months", "drop_months", "request_log_make_days", "request_log_forget_days",
    }  # fmt: skip
    for row in rows:
        assert "search_path=public, pg_temp" in row["proconfig"]
        assert not row["anybodys"]


async def test_functions_with_owner_rights_do_not_touch_temporary_tables_of_the_caller(servers: Any) -> None:
    """If such a function moved rows from or to a temporary table, a trigger of that table would run as the owner."""
    async with own_database(servers, "lent") as url:
        conn = await asyncpg.connect(url)
        try:
            await conn.execute(
                "CREATE TEMPORARY TABLE theirs (at timestamptz NOT NULL) PARTITION BY RANGE (at);"
                "CREATE TEMPORARY TABLE theirs_other PARTITION OF theirs DEFAULT"
            )
            for act in ("make_months('theirs', '2031-01-01', '2031-01-01')", "detach_months('theirs', now())"):
                with pytest.raises(asyncpg.RaiseError, match="theirs is not partitioned by month"):
                    await conn.execute(f"SELECT {act}")
            for kept in ("theirs", "read_event_sandbox", "bank_order_done"):
                with pytest.raises(asyncpg.RaiseError, match=f"months of {kept} are kept"):
                    await conn.execute("SELECT drop_months($1, now())", kept)
            await conn.execute(
                "CREATE TEMPORARY TABLE read_event_sandbox_other (created_at timestamptz);"
                "INSERT INTO read_event_sandbox_other VALUES ('2031-01-05Z');"
                "CREATE TEMPORARY TABLE request_log_other (at timestamptz);"
                "INSERT INTO request_log_other VALUES ('2001-01-05Z')"
            )
            assert await conn.fetchval("SELECT make_months('read_event_sandbox', '2031-01-01', '2031-01-01')") == 1
            assert await conn.fetchval("SELECT request_log_forget_days('2002-01-01Z', 1, 1)") == 0
            assert await conn.fetchval("SELECT count(*) FROM read_event_sandbox_other") == 1
            assert await conn.fetchval("SELECT count(*) FROM request_log_other") == 1
            made = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'read_event_sandbox_2031_01'"
            assert await conn.fetchval(made) == role_of(servers.owner_url)
        finally:
            await conn.close()


# How a role gets its rights


async def test_the_next_migration_revokes_rights_that_were_granted_by_hand(servers: Any) -> None:
    async with own_database(servers, "by_hand") as url:
        owner_url, report_url = owner_of(servers, url), report_of(servers, url)
        app, report = role_of(url), role_of(report_url)
        owner = await asyncpg.connect(owner_url)
        await owner.execute(
            f"GRANT UPDATE, TRUNCATE ON journal TO {app}; GRANT DELETE ON read_event_sandbox_other TO {app};"
            f" GRANT ALL ON SCHEMA public TO {app}; REVOKE INSERT ON charge FROM {app};"
            f" GRANT SELECT ON dashboard_user TO {report}; GRANT UPDATE (name) ON account TO {report}"
        )
        await migrate(owner_url, app_url=url, report_url=report_url)
        conn = await asyncpg.connect(url)
        try:
            for statement in (
                "UPDATE journal SET actor = ''", "TRUNCATE journal", "DELETE FROM read_event_sandbox_other",
                "CREATE TABLE mine (n integer)",
            ):  # fmt: skip
                with pytest.raises(DENIED):
                    await conn.execute(statement)
            assert await conn.fetchval("SELECT has_table_privilege('charge', 'INSERT')")
            for column, privilege in (("dashboard_user.password_hash", "SELECT"), ("account.name", "UPDATE")):
                asked = "SELECT has_column_privilege($1, $2, $3, $4)"
                assert not await owner.fetchval(asked, report, *column.split("."), privilege)
            catalogue = "SELECT count(*) FROM pg_class WHERE xmin::text::bigint > $1"
            before = await owner.fetchval("SELECT txid_current()")
            await migrate(owner_url, app_url=url, report_url=report_url)
            assert await owner.fetchval(catalogue, before) == 0, "a second migration must grant nothing again"
        finally:
            await conn.close()
            await owner.close()


def _url_of_role(url: str, role: str, password: str) -> str:
    host = urlsplit(url).netloc.rpartition("@")[2]
    return urlunsplit(urlsplit(url)._replace(netloc=f"{role}:{password}@{host}"))


async def test_an_owner_who_is_no_superuser_can_migrate_and_create_the_roles(servers: Any) -> None:
    """As with a managed database: the owner owns the database and may create roles, but is no superuser."""
    word = secrets.token_hex(6)
    names = [f"{kind}_{word}" for kind in ("owner", "app", "report")]
    admin = await asyncpg.connect(servers.owner_url)
    try:
        await admin.execute(f"CREATE ROLE {names[0]} LOGIN CREATEROLE PASSWORD '{word}'")
        await admin.execute(f"CREATE DATABASE plain_{word} OWNER {names[0]}")
        urls = [
            urlunsplit(urlsplit(_url_of_role(servers.owner_url, name, word))._replace(path=f"/plain_{word}"))
            for name in names
        ]
        assert len(await migrate(urls[0], app_url=urls[1], report_url=urls[2])) == 15
        assert await migrate(urls[0], app_url=urls[1], report_url=urls[2]) == []
        for url, denied in ((urls[1], "DELETE FROM journal"), (urls[2], "SELECT secret_hash FROM credential")):
            conn = await asyncpg.connect(url)
            assert await conn.fetchval("SELECT count(*) FROM journal") == 0
            with pytest.raises(DENIED):
                await conn.execute(denied)
            await conn.close()
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(_url_of_role(urls[1], names[1], "another"))
    finally:
        await admin.execute(f"DROP DATABASE IF EXISTS plain_{word} WITH (FORCE)")
        for name in reversed(names):
            await admin.execute(f"DROP ROLE IF EXISTS {name}")
        await admin.close()


async def test_one_role_for_everything_still_works(servers: Any) -> None:
    async with own_database(servers, "one_role", migrated=False) as url:
        owner_url = owner_of(servers, url)
        assert len(await migrate(owner_url, app_url=owner_url, report_url=owner_url)) == 15
        conn = await asyncpg.connect(owner_url)
        granted = "SELECT count(*) FROM pg_class WHERE relacl IS NOT NULL AND relnamespace = 'public'::regnamespace"
        assert await conn.fetchval(granted) == 0
        await conn.close()


async def test_a_role_that_grants_do_not_restrict_is_refused(servers: Any) -> None:
    word = secrets.token_hex(6)
    admin = await asyncpg.connect(servers.owner_url)
    try:
        async with own_database(servers, "unbound") as url:
            owner_url = owner_of(servers, url)
            for what in ("SUPERUSER", "CREATEROLE", f"IN ROLE {role_of(owner_url)}"):
                await admin.execute(f"CREATE ROLE unbound_{word} LOGIN {what}")
                with pytest.raises(CannotGrant, match=f"unbound_{word} is bound by no grant"):
                    await migrate(owner_url, app_url=_url_of_role(url, f"unbound_{word}", "x"))
                await admin.execute(f"DROP ROLE unbound_{word}")
            with pytest.raises(CannotGrant, match=f"the role absent_{word} is not there"):
                await migrate(owner_url, app_url=_url_of_role(url, f"absent_{word}", ""))
            with pytest.raises(CannotGrant, match="must name a role"):
                await migrate(owner_url, app_url="postgresql:///quita")
    finally:
        await admin.execute(f"DROP ROLE IF EXISTS unbound_{word}")
        await admin.close()
