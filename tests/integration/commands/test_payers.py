"""The data held about a payer can be exported and erased, and the books stay complete."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from commands.money.suspense import SuspendedMoney, assign_suspense, suspend_money
from commands.payers.erase import OpenBusiness, erase_payer
from commands.payers.export import export_payer
from commands.people.audit import Origin
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from readmodels.charges.charge import Payer, PaymentBlock, charges_by_id, present
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from runtime.seal import CHARGE_PAYER, MAIL_TO, PAYMENT_PAYER, SCHEDULE_PAYER, SUSPENDED_PAYER, Seal
from tests.support.dashboard import Books, a_merchant
from tests.support.partners import refunds

SEAL = Seal(bytes(range(32)))
DOCUMENT = "52998224725"
PAYER = {
    "name": "Quitéria Bragança",
    "document": DOCUMENT,
    "email": "quiteria@braganca.example",
    "phone": "+5581987654321",
}
SECRETS = (*PAYER.values(), "Zulmira Fontoura", "***.444.777-**")
ORIGIN = Origin("operator", "terminal", "cli")
MAIL = (
    "INSERT INTO mail (mail_id, account_id, charge_id, kind, to_sealed, to_hash, due_at, created_at, state)"
    " VALUES ($1, $2, $3, 'charge', $4, $5, now(), now(), 'sent')"
)


def now() -> datetime:
    return datetime.now(UTC)


SEALED = {
    ("charge", "payer_sealed"): (CHARGE_PAYER, "charge_id"),
    ("payment", "payer_sealed"): (PAYMENT_PAYER, "payment_id"),
    ("schedule", "payer_sealed"): (SCHEDULE_PAYER, "schedule_id"),
    ("suspense", "payer_sealed"): (SUSPENDED_PAYER, "source"),
    ("mail", "to_sealed"): (MAIL_TO, "mail_id"),
}


async def an_account(pool: Pool) -> Books:
    merchant = await a_merchant(pool)
    return Books(pool, merchant.account_id, SEAL)


async def create_paid_charge(books: Books, *, test: bool = False) -> UUID:
    doc = await books.charge(payer=PAYER, external_id="pedido-1", test=test)
    await books.paid(doc, payer_name="Zulmira Fontoura", payer_document="11144477735")
    charge_id = UUID(doc.charge_id)
    mail_id = new_id()
    to = SEAL.seal(PAYER["email"].encode(), MAIL_TO, mail_id)
    await books.pool.execute(MAIL, mail_id, books.account_id, charge_id, to, SEAL.blind(PAYER["email"]))
    return charge_id


async def rows_about(pool: Pool, account_id: UUID, charge_id: UUID) -> str:
    """Returns every row of every table that names this account or charge, as text, with all sealed values opened."""
    tables = await pool.fetch(
        "SELECT c.table_name, array_agg(c.column_name) AS columns FROM information_schema.columns c"
        " JOIN information_schema.tables t USING (table_schema, table_name)"
        " WHERE table_schema = current_schema() AND t.table_type = 'BASE TABLE' GROUP BY 1"
    )
    found = []
    for table in tables:
        about = [name for name in ("account_id", "charge_id") if name in table["columns"]]
        if not about:
            continue
        where = " OR ".join(f"{name} = ${1 if name == 'account_id' else 2}" for name in about)
        given = "($1::uuid IS NOT NULL AND $2::uuid IS NOT NULL)"
        rows = await pool.fetch(
            f"SELECT * FROM {table['table_name']} WHERE {given} AND ({where})",  # noqa: S608
            account_id,
            charge_id,
        )
        for row in rows:
            for name, value in row.items():
                if (sealed := SEALED.get((table["table_name"], name))) is not None and value is not None:
                    what, key = sealed
                    value = SEAL.open(value, what, row[key]).decode()
                found.append(f"{table['table_name']}.{name}={value!r}")
    return "\n".join(found)


async def rows_of_the_books(pool: Pool, account_id: UUID) -> list[Any]:
    """Returns the rows of journal, ledger, feed, charges, payments and clock of the account."""
    return [
        await pool.fetch("SELECT * FROM journal WHERE account_id = $1 ORDER BY journal_id", account_id),
        await pool.fetch("SELECT * FROM read_ledger WHERE account_id = $1 ORDER BY sequence", account_id),
        await pool.fetch("SELECT * FROM read_event WHERE account_id = $1 ORDER BY sequence", account_id),
        await pool.fetch(
            "SELECT charge_id, status, version, changes FROM read_charge WHERE account_id = $1", account_id
        ),
        await pool.fetch("SELECT payment_id, amount_cents FROM payment WHERE account_id = $1", account_id),
        await pool.fetch("SELECT * FROM account_clock WHERE account_id = $1", account_id),
    ]


async def erase(books: Books, *, mode: Mode = Mode.PRODUCTION, at: datetime | None = None) -> Any:
    async with books.pool.acquire() as conn:
        owner = Owner(books.account_id, mode)
        return await erase_payer(conn, owner, SEAL.blind(DOCUMENT), "asked for", ORIGIN, now=at or now())


async def test_the_journal_holds_no_payer_data(pool: Pool) -> None:
    books = await an_account(pool)
    await create_paid_charge(books)
    rows = await pool.fetch("SELECT payload::text, event_body FROM journal WHERE account_id = $1", books.account_id)
    assert len(rows) == 2
    for row in rows:
        assert "sealed" not in row["payload"]
        assert SEAL.blind(DOCUMENT) not in row["payload"]
        assert b"***" not in (row["event_body"] or b"")


async def test_an_erasure_removes_the_payer_from_every_table_and_keeps_the_books_unchanged(pool: Pool) -> None:
    books = await an_account(pool)
    charge_id = await create_paid_charge(books)
    owner = Owner(books.account_id, Mode.PRODUCTION)
    before, told = await rows_of_the_books(pool, books.account_id), await rows_about(pool, books.account_id, charge_id)
    assert all(secret in told for secret in (*SECRETS, SEAL.blind(DOCUMENT)))
    erased = await erase(books)
    assert (erased.charges, erased.schedules) == (1, 0)
    assert await rows_of_the_books(pool, books.account_id) == before
    told = await rows_about(pool, books.account_id, charge_id)
    assert not [secret for secret in (*SECRETS, SEAL.blind(DOCUMENT), SEAL.blind(PAYER["email"])) if secret in told]
    async with pool.acquire() as conn:
        ((doc,), late) = await charges_by_id(conn, [(charge_id, owner)]), now()
    assert doc is not None
    shown = present(doc, SEAL, app_url="https://quita.example", now=late).payment
    assert shown is not None
    assert (shown.payer.name, shown.payer.document, shown.amount) == (None, None, "10.00")
    assert (await erase(books)).charges == 0


async def test_the_payer_of_a_payment_after_the_erasure_is_not_stored(pool: Pool) -> None:
    """The payer pays late, and staff assign money from suspense: both payments are booked as any other."""
    books = await an_account(pool)
    doc = await books.charge(payer=PAYER)
    charge_id = UUID(doc.charge_id)
    assert (await erase(books, at=now() + timedelta(days=2))).charges == 1
    await books.paid(doc, payer_name="Zulmira Fontoura", payer_document="11144477735")
    payer = msgspec.json.encode({"name": "Zulmira Fontoura", "document": "11144477735"})
    source = f"E99999994{new_id().hex[:23]}"
    money = SuspendedMoney(
        suspense_id=new_id(), kind="pix_without_txid", source=source, reference=None, amount_cents=700,
        received_at=now(), payer_sealed=SEAL.seal(payer, SUSPENDED_PAYER, source),
    )  # fmt: skip
    async with transaction(pool) as conn:
        await suspend_money(conn, [money], bank="001", now=now())
        await assign_suspense(
            conn, money.suspense_id, charge_id, by="ana", note=None, now=now(), seal=SEAL, fees=NO_FEES
        )
    told = await rows_about(pool, books.account_id, charge_id)
    assert not [secret for secret in SECRETS if secret in told]
    rows = await pool.fetch("SELECT amount_cents, settles FROM payment WHERE charge_id = $1 ORDER BY 1", charge_id)
    assert [tuple(row) for row in rows] == [(700, False), (1000, True)]


async def test_the_payer_of_a_refunded_payment_is_shown_until_erased_and_never_journaled(pool: Pool) -> None:
    """There are two partial refunds; each changes the refunded amount that the charge shows."""
    books = await an_account(pool)
    charge_id = await create_paid_charge(books)
    owner = Owner(books.account_id, Mode.PRODUCTION)
    payment_id = await pool.fetchval("SELECT payment_id FROM payment WHERE charge_id = $1", charge_id)

    async def shown() -> PaymentBlock:
        async with pool.acquire() as conn:
            (doc,) = await charges_by_id(conn, [(charge_id, owner)])
        assert doc is not None
        block = present(doc, SEAL, app_url="https://quita.example", now=now()).payment
        assert block is not None
        return block

    before = await shown()
    for cents, back in ((300, "3.00"), (200, "5.00")):
        await refunds(pool, books.account_id, [(charge_id, payment_id, cents)])
        assert await shown() == msgspec.structs.replace(before, refunded_amount=back)
    rows = await pool.fetch("SELECT kind, payload::text FROM journal WHERE account_id = $1", books.account_id)
    assert [row["kind"] for row in rows].count("refund.succeeded") == 2
    assert not [row["kind"] for row in rows if "sealed" in row["payload"]]
    assert (await erase(books)).charges == 1
    assert (await shown()).payer == Payer(None, None)
    told = await rows_about(pool, books.account_id, charge_id)
    assert "sealed" not in "\n".join(
        line for line in told.splitlines() if line.startswith(("journal.", "read_charge."))
    )


async def test_both_audit_logs_record_the_erasure_without_payer_data(pool: Pool) -> None:
    books = await an_account(pool)
    await create_paid_charge(books)
    await erase(books)
    rows = await pool.fetch(
        "SELECT action, facts::text, account_id FROM audit WHERE account_id = $1 OR subject = $1::text",
        books.account_id,
    )
    assert sorted(row["action"] for row in rows) == ["payer.erased"] * 2 + ["payer.erasure_asked"] * 2
    assert not any(secret in row["facts"] for row in rows for secret in (*SECRETS, SEAL.blind(DOCUMENT)))


async def test_a_payer_with_a_pending_charge_or_refund_is_not_erased(pool: Pool) -> None:
    books = await an_account(pool)
    charge_id = await create_paid_charge(books)
    await books.charge(payer=PAYER)
    with pytest.raises(OpenBusiness, match="1 pending charges"):
        await erase(books)
    # Two days later the pending charge is overdue, whether or not its expiry was recorded.
    await pool.execute("UPDATE payment SET refunding_cents = 1 WHERE charge_id = $1", charge_id)
    with pytest.raises(OpenBusiness, match=r"^1 refunds on their way$"):
        await erase(books, at=now() + timedelta(days=2))
    await pool.execute("UPDATE payment SET refunding_cents = 0 WHERE charge_id = $1", charge_id)
    assert (await erase(books, at=now() + timedelta(days=2))).charges == 2


async def test_an_erasure_touches_no_other_payer_account_or_mode(pool: Pool) -> None:
    """Another payer of the account, the same payer at another account, and the same payer in the other mode stay."""
    books, others = await an_account(pool), await an_account(pool)
    await create_paid_charge(books)
    theirs = await create_paid_charge(others)
    tried = await create_paid_charge(books, test=True)
    neighbour = await books.charge(payer=PAYER | {"document": "11144477735", "name": "Ana"})
    assert (await erase(books)).charges == 1
    for charge_id in (theirs, tried, UUID(neighbour.charge_id)):
        row = await pool.fetchrow(
            "SELECT payer_sealed, payer_document_hash FROM charge WHERE charge_id = $1", charge_id
        )
        assert row is not None
        assert None not in tuple(row)


async def test_an_erasure_proceeds_in_slices(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    books = await an_account(pool)
    monkeypatch.setattr("commands.payers.erase.SLICE", 2)
    for _ in range(5):
        await create_paid_charge(books)
    heard: list[int] = []
    async with pool.acquire() as conn:
        owner = Owner(books.account_id, Mode.PRODUCTION)
        await erase_payer(conn, owner, SEAL.blind(DOCUMENT), "x", ORIGIN, now=now(), progress=heard.append)
    assert heard == [2, 4, 5]


async def test_an_export_shows_all_payer_data_that_is_held(pool: Pool) -> None:
    books = await an_account(pool)
    charge_id = await create_paid_charge(books)
    owner = Owner(books.account_id, Mode.PRODUCTION)
    async with pool.acquire() as conn:
        found = await export_payer(conn, owner, SEAL.blind(DOCUMENT), ORIGIN, now=now(), seal=SEAL)
        told = json.dumps(msgspec.to_builtins(found), ensure_ascii=False)
        assert all(secret in told for secret in SECRETS)
        assert [each["charge_id"] for each in found.charges] == [str(charge_id)]
        assert not found.cut
        await erase(books)
        found = await export_payer(conn, owner, SEAL.blind(DOCUMENT), ORIGIN, now=now(), seal=SEAL)
        assert found.charges == []
    actions = await pool.fetch(
        "SELECT facts FROM audit WHERE account_id = $1 AND action = 'payer.exported'", books.account_id
    )
    assert len(actions) == 2
