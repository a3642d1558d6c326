"""After `quita rekey` no value is sealed with an older key, even if a run was interrupted or rows changed meanwhile."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

import commands.sealed as sealed_columns
from commands.bank_orders.boleto_orders import give_up
from commands.bank_orders.kinds import Reconciliation
from commands.charges.create_boleto import BoletoRequest, compose_boleto, order_boletos, read_registration
from commands.charges.issuer import Issuer
from commands.sealed import SEALED, Rekeyed, rekey
from runtime.ids import new_id
from runtime.postgres import Pool, connect, open_pool
from runtime.seal import CHARGE_PAYER, PAYMENT_PAYER, Seal, read_keys
from tests.support.banking import make_account
from tests.support.boletos import AGREEMENT
from tests.support.database import own_database, owner_of

OLD, NEW = "11" * 32, "22" * 32
BEFORE = Seal(read_keys(OLD))
AFTER = Seal(read_keys(f"2:{NEW},1:{OLD}"))
ALONE = Seal(read_keys(f"2:{NEW}"))
CHARGES = 3_000
"""Enough charges for several ranges of pages."""


@pytest_asyncio.fixture(loop_scope="session")
async def url(servers: Any) -> AsyncIterator[str]:
    async with own_database(servers, "rekey") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def pool(url: str) -> AsyncIterator[Pool]:
    opened = await open_pool(url, name="tests", size=4)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def owner(servers: Any, url: str) -> AsyncIterator[Pool]:
    opened = await open_pool(owner_of(servers, url), name="tests as owner", size=2)
    yield opened
    await opened.close()


async def fill_sealed_columns(pool: Pool) -> list[UUID]:
    """As the owner of the tables, inserts a row for every sealed column and CHARGES charges; returns the charge ids."""
    account_id, now = await make_account(pool), datetime.now(UTC)
    charge_ids = [new_id() for _ in range(CHARGES)]
    await pool.executemany(
        "INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents,"
        " created_at, expires_at, payer_sealed) VALUES ($1, $2, false, '001', 'pix', 'pending', 1, 100, $3, $3, $4)",
        [(account_id, each, now, BEFORE.seal(f"payer of {each}".encode(), CHARGE_PAYER, each)) for each in charge_ids],
    )
    for column in SEALED:
        if column.table == "charge":
            continue
        types = {
            row["column_name"]: row["data_type"]
            for row in await pool.fetch(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = $1", column.table
            )
        }
        key = {name: _unique(types[name]) for name in column.bound}
        bytes = BEFORE.seal(str(column).encode(), column.what, " ".join(str(each) for each in key.values()))
        await _insert(pool, column.table, types, key, column.column, bytes, column.member)
    return charge_ids


async def _insert(
    pool: Pool, table: str, types: dict[str, str], key: dict[str, Any], name: str, bytes: bytes, member: str | None
) -> None:
    """Inserts a row with only the required columns, past the table's constraints and triggers, which are not tested."""
    must = await pool.fetch(
        "SELECT column_name FROM information_schema.columns WHERE table_name = $1 AND is_nullable = 'NO'"
        " AND column_default IS NULL AND is_identity = 'NO' AND is_generated = 'NEVER'",
        table,
    )
    made: dict[str, Any] = {row["column_name"]: _anything(types[row["column_name"]]) for row in must} | key
    if table == "bank_order":
        made["kind"] = "cob_register"  # The lane is generated from the kind.
    if table == "cell":
        made["name"] = f"x{key['number']}"  # Names of cells are unique.
    made[name] = bytes if member is None else msgspec.json.encode(_nested(member, b64encode(bytes).decode()))
    columns = ", ".join(made)
    values = ", ".join(
        f"${at}::{types[each] if types[each] != 'ARRAY' else 'text[]'}" for at, each in enumerate(made, 1)
    )
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute("SET LOCAL session_replication_role = replica")
        for check in await conn.fetch(
            "SELECT conname FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype = 'c'", table
        ):
            await conn.execute(f"ALTER TABLE {table} DROP CONSTRAINT {check['conname']}")
        await conn.execute(f"INSERT INTO {table} ({columns}) VALUES ({values})", *made.values())  # noqa: S608


def _nested(member: str, text: str) -> dict[str, Any]:
    """`a.b` -> {"a": {"b": text}}."""
    outer, _, inner = member.partition(".")
    return {outer: _nested(inner, text) if inner else text}


def _sealed_members(of: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yields the path and text of every member that ends in _sealed, at any depth."""
    for name, value in of.items():
        if isinstance(value, dict):
            yield from _sealed_members(value, f"{path}{name}.")
        elif name.endswith("_sealed"):
            yield f"{path}{name}", value


def _unique(type: str) -> Any:
    """Returns a key that no other row of the test has."""
    made = new_id()
    return made if type == "uuid" else made.int % 2**31 if type == "integer" else f"x{made.hex}"


def _anything(type: str) -> Any:
    by_type: dict[str, Any] = {
        "uuid": new_id(), "text": "x", "boolean": False, "integer": 1, "bigint": 1, "smallint": 1, "bytea": b"",
        "date": datetime.now(UTC).date(), "timestamp with time zone": datetime.now(UTC), "jsonb": b"{}", "ARRAY": [],
    }  # fmt: skip
    return by_type[type]


async def key_ids_in_use(pool: Pool) -> dict[str, set[int]]:
    """Returns the ids of the keys in use, by each column and each JSON member whose name ends in _sealed."""
    found: dict[str, set[int]] = {}
    columns = await pool.fetch(
        "SELECT c.table_name, c.column_name FROM information_schema.columns c JOIN information_schema.tables t"
        " USING (table_schema, table_name) WHERE table_schema = current_schema() AND t.table_type = 'BASE TABLE'"
        " AND (c.column_name LIKE '%\\_sealed' OR c.column_name = 'request' AND c.data_type = 'jsonb')"
    )
    for table, name in columns:
        for (value,) in await pool.fetch(f"SELECT {name} FROM {table} WHERE {name} IS NOT NULL"):  # noqa: S608
            if name == "request":
                for member, text in _sealed_members(msgspec.json.decode(value)):
                    found.setdefault(f"{table}.{name}.{member}", set()).add(b64decode(text)[0])
            else:
                if value:
                    found.setdefault(f"{table}.{name}", set()).add(value[0])
    return found


async def test_every_sealed_column_is_resealed_and_opens_with_the_new_key_alone(
    pool: Pool, owner: Pool, url: str
) -> None:
    charge_ids = await fill_sealed_columns(owner)
    assert set(await key_ids_in_use(pool)) == {str(column) for column in SEALED}, "SEALED must list every sealed column"
    told: list[tuple[Any, ...]] = []
    conn = await connect(url)
    done = await rekey(conn, AFTER, progress=lambda *each: told.append(each))
    assert done == Rekeyed(CHARGES + len(SEALED) - 1, 0)
    assert await key_ids_in_use(pool) == {str(column): {2} for column in SEALED}
    rows = await pool.fetch("SELECT charge_id, payer_sealed FROM charge WHERE charge_id = ANY($1)", charge_ids)
    for row in rows:
        opened = ALONE.open(row["payer_sealed"], CHARGE_PAYER, row["charge_id"])
        assert opened == f"payer of {row['charge_id']}".encode()
    assert [(str(column), of) for column, done, of, _ in told if done == of and str(column) == "payment.payer_sealed"]
    assert await rekey(conn, AFTER) == Rekeyed(0, 0), "a second run must find nothing to do"
    await conn.close()


async def test_the_payer_of_a_creation_that_was_given_up_is_resealed(pool: Pool, url: str) -> None:
    """The order to reconcile it is executed when the bank answers, maybe days later, and opens the payer then."""
    account_id, charge_id, now = await make_account(pool), new_id(), datetime.now(UTC)
    request = BoletoRequest(
        charge_id=charge_id,
        issuer=Issuer(account_id=account_id, test=False, name="", city="", pix_key="", actor="test"),
        key="k", fingerprint=b"", request_id="", kind="boleto", amount_cents=100, due_on=now.date(),
        payer_sealed=BEFORE.seal(b"the payer", CHARGE_PAYER, charge_id), payer_document_hash=None,
        external_id=None, description=None,
    )  # fmt: skip
    order = compose_boleto(request, 7, agreement=AGREEMENT, now=now, deadline=now, reply_to=None)
    async with pool.acquire() as conn, conn.transaction():
        assert await order_boletos(conn, [order]) == {order.order_id}
        await conn.execute("UPDATE bank_order SET attempts = 1, state = 'working' WHERE order_id = $1", order.order_id)
        assert await give_up(conn, order.order_id, reconcile_id=new_id(), outcome=b"{}", now=now)
    conn = await connect(url)
    assert await rekey(conn, AFTER) == Rekeyed(1, 0)
    await conn.close()
    kept = await pool.fetchval("SELECT request FROM bank_order WHERE charge_id = $1", charge_id)
    asked = read_registration(msgspec.json.decode(kept, type=Reconciliation).request)
    assert ALONE.open(b64decode(asked.payer_sealed), CHARGE_PAYER, charge_id) == b"the payer"


async def test_an_interrupted_rekey_resumes_where_it_stopped(
    pool: Pool, owner: Pool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_sealed_columns(owner)
    monkeypatch.setattr(sealed_columns, "_PAGES", 10)
    put, calls = sealed_columns.put, 0

    async def dies(*args: Any, **more: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise ConnectionError
        return await put(*args, **more)

    monkeypatch.setattr(sealed_columns, "put", dies)
    conn = await connect(url)
    with pytest.raises(ConnectionError):
        await rekey(conn, AFTER)
    left = await pool.fetchval("SELECT count(*) FROM charge WHERE get_byte(payer_sealed, 0) = 1")
    assert 0 < left < CHARGES
    assert (await rekey(conn, AFTER)).resealed == left + len(SEALED) - 1
    await conn.close()


async def test_a_row_that_changes_during_a_rekey_is_not_overwritten(
    pool: Pool, owner: Pool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge_id, *_ = await fill_sealed_columns(owner)
    put = sealed_columns.put
    anew = BEFORE.seal(b"another payer", CHARGE_PAYER, charge_id)

    changed = False

    async def late(conn: Any, **more: Any) -> int:
        nonlocal changed
        if not changed:
            changed = True
            await pool.execute("UPDATE charge SET payer_sealed = $1 WHERE charge_id = $2", anew, charge_id)
        return await put(conn, **more)

    monkeypatch.setattr(sealed_columns, "put", late)
    conn = await connect(url)
    running = asyncio.create_task(rekey(conn, AFTER))
    await running
    await conn.close()
    kept = await pool.fetchval("SELECT payer_sealed FROM charge WHERE charge_id = $1", charge_id)
    assert ALONE.open(kept, CHARGE_PAYER, charge_id) == b"another payer"


@pytest.mark.parametrize("beside", [0, 1], ids=["alone", "in the last round, which reseals another"])
async def test_a_value_that_no_key_opens_is_counted_and_left_unchanged(
    pool: Pool, owner: Pool, url: str, monkeypatch: pytest.MonkeyPatch, beside: int
) -> None:
    monkeypatch.setattr(sealed_columns, "_ROUNDS_MAX", 1)
    await owner.execute("DELETE FROM mail")
    (column,) = [each for each in SEALED if str(each) == "mail.to_sealed"]
    stranger = Seal(read_keys(f"9:{'33' * 32}")).seal(b"x", PAYMENT_PAYER, 1)
    mails = {new_id(): stranger}
    for _ in range(beside):
        mail_id = new_id()
        mails[mail_id] = BEFORE.seal(b"a@example.com", column.what, mail_id)
    for mail_id, sealed in mails.items():
        await pool.execute(
            "INSERT INTO mail (mail_id, kind, to_sealed, to_hash, due_at, created_at)"
            " VALUES ($1, 'access', $2, 'x', now(), now())",
            mail_id, sealed,
        )  # fmt: skip
    conn = await connect(url)
    assert await rekey(conn, AFTER) == Rekeyed(beside, 1)
    await conn.close()
    assert stranger in [row["to_sealed"] for row in await pool.fetch("SELECT to_sealed FROM mail")]
