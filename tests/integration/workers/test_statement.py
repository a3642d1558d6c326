"""What comparisons with the banks' lists find in our books: items of each list, by bank, mode, period and state."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from runtime.ids import first_id, new_id
from tests.support.banking import BANK, make_account
from workers.incoming.boleto_payments import Unbooked
from workers.incoming.boleto_payments import find_unbooked as find_unbooked_boletos
from workers.incoming.pix_payments import find_unbooked
from workers.incoming.statement import (
    find_accounts_of_keys,
    find_boletos,
    find_boletos_not_listed,
    find_pix,
    find_pix_not_listed,
    find_refunds_not_listed,
    find_returns,
    find_transfers,
)

OTHER = "999"
SINCE = datetime(2026, 5, 1, tzinfo=UTC)
UNTIL = SINCE + timedelta(days=1)
NOON = SINCE + timedelta(hours=12)


async def insert_charge(conn: Any, account_id: UUID, *, test: bool = False, bank: str = BANK) -> UUID:
    charge_id = new_id()
    await conn.execute(
        "INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents,"
        " created_at, expires_at) VALUES ($1, $2, $3, $4, 'pix', 'paid', 1, 1000, $5, $6)",
        account_id, charge_id, test, bank, SINCE, UNTIL,
    )  # fmt: skip
    return charge_id


async def insert_payment(
    conn: Any, account_id: UUID, source: str, *, test: bool = False, bank: str = BANK, paid_at: datetime = NOON
) -> UUID:
    """Returns the charge."""
    charge_id = await insert_charge(conn, account_id, test=test, bank=bank)
    await conn.execute(
        "INSERT INTO payment (account_id, payment_id, test, settles, charge_id, source, method, amount_cents, paid_at,"
        " credited_at) VALUES ($1, $2, $3, true, $4, $5, 'pix', 1000, $6, $6)",
        account_id, new_id(), test, charge_id, source, paid_at,
    )  # fmt: skip
    return charge_id


async def insert_suspense(
    conn: Any, source: str, cents: int, *, bank: str = BANK, boleto: str | None = None, returned: bool = True
) -> None:
    await conn.execute(
        "INSERT INTO suspense (suspense_id, bank, kind, source, reference, amount_cents, received_at, found_at, state,"
        " settled_at, return_reference) VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10)",
        new_id(), bank, "boleto_unknown" if boleto else "pix_without_txid", source, boleto, cents, NOON,
        "returned" if returned else "open", NOON if returned else None, "D1" if returned else None,
    )  # fmt: skip


async def test_a_pix_payment_is_missed_in_the_list_of_its_own_bank_and_period_only(conn: Any, pool: Any) -> None:
    account_id = await make_account(pool)
    await insert_payment(conn, account_id, "Emissing")
    await insert_payment(conn, account_id, "Elisted")
    await insert_payment(conn, account_id, "Etried", test=True)
    await insert_payment(conn, account_id, "Eelsewhere", bank=OTHER)
    await insert_payment(conn, account_id, "00000000000000000001/1000")
    await insert_payment(conn, account_id, "Ebefore", paid_at=SINCE - timedelta(milliseconds=1))
    await insert_payment(conn, account_id, "Eafter", paid_at=UNTIL)
    rows = await find_pix_not_listed(
        conn, bank=BANK, first_id=first_id(SINCE), since=SINCE, until=UNTIL, listed=["Elisted"], limit=10_000
    )
    assert [row.reference for row in rows if row.account_id == account_id] == ["Emissing"]


async def test_a_received_pix_is_booked_to_a_production_charge_or_held_in_suspense_of_its_bank(
    conn: Any, pool: Any
) -> None:
    account_id = await make_account(pool)
    booked = await insert_payment(conn, account_id, "Ebooked")
    tried = await insert_payment(conn, account_id, "Etried", test=True)
    await insert_payment(conn, account_id, "Eagain", test=True)  # of the sandbox, by the same name
    await insert_suspense(conn, "Eheld", 200, returned=False)
    await insert_suspense(conn, "Eelsewhere", 300, bank=OTHER)
    foreign = await insert_charge(conn, await make_account(pool))
    items: list[tuple[str, UUID | None, int | None]] = [
        ("Ebooked", booked, 1000),
        ("Ebooked", foreign, None),
        ("Eagain", booked, None),
        ("Etried", tried, None),
        ("Eheld", None, 200),
        ("Eelsewhere", None, None),
    ]
    rows = await find_pix(
        conn, bank=BANK, charge_ids=[each for _, each, _ in items], end_to_end_ids=[each for each, _, _ in items]
    )
    assert Counter((row.reference, row.here_cents) for row in rows) == Counter(
        (name, cents) for name, _, cents in items
    )
    unbooked = await find_unbooked(
        conn, bank=BANK, charge_ids=[each for _, each, _ in items], end_to_end_ids=[each for each, _, _ in items]
    )
    assert Counter((row.end_to_end_id, row.known) for row in unbooked) == Counter(
        [("Ebooked", True), ("Eagain", True), ("Etried", False), ("Eelsewhere", False)]
    ), "what is booked, or held for staff, is not booked again"


async def test_a_paid_boleto_is_compared_with_what_was_booked_for_it_at_its_bank(conn: Any, pool: Any) -> None:
    account_id = await make_account(pool)
    before = SINCE - timedelta(milliseconds=1)
    payments: list[tuple[str, dict[str, Any]]] = [
        ("21/1000", {}), ("22/400", {}), ("23/1000", {"bank": OTHER}), ("24/1000", {"paid_at": before}),
        ("25/1000", {"paid_at": UNTIL}), ("26/1000", {"test": True}), ("Ehybrid27", {}),
    ]  # fmt: skip
    for source, more in payments:
        charge_id = await insert_payment(conn, account_id, source, **more)
        await conn.execute(
            "INSERT INTO boleto (account_id, charge_id, bank, number, due_on, registered_at, booked_cents)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7)",
            account_id, charge_id, more.get("bank", BANK), source.partition("/")[0][-2:], NOON.date(), NOON,
            400 if source == "22/400" else 1000,
        )  # fmt: skip
    for source, bank in (("31/300", BANK), ("31/600", BANK), ("32/300", OTHER)):
        await insert_suspense(conn, source, 300, bank=bank, boleto=source[:2], returned=False)
    rows = await find_boletos(conn, bank=BANK, numbers=["21", "22", "23", "31", "32"])
    assert {row.reference: row.here_cents for row in rows} == {"21": 1000, "22": 400, "23": None, "31": 600, "32": None}
    missing = await find_boletos_not_listed(
        conn, bank=BANK, first_id=first_id(SINCE), since=SINCE, until=UNTIL, listed=["22"], limit=10_000
    )
    assert [row.reference for row in missing if row.account_id == account_id] == ["21"]
    paid = [Unbooked(number, True, 1000, NOON.date()) for number in ("21", "22", "23")]
    unbooked = await find_unbooked_boletos(conn, bank=BANK, boletos=paid)
    assert [(row.number, row.known) for row in unbooked] == [("22", True), ("23", False)]


async def test_a_return_is_a_refund_a_booked_reversal_or_money_returned_from_suspense(conn: Any, pool: Any) -> None:
    account_id = await make_account(pool)
    refunds = {"D-refund": new_id(), "D-failed": new_id()}
    for name, status in (("D-refund", "succeeded"), ("D-failed", "failed")):
        await conn.execute(
            "INSERT INTO refund (account_id, refund_id, test, charge_id, payment_id, amount_cents, status, created_at)"
            " VALUES ($1, $2, false, $2, $2, 100, $3, $4)",
            account_id, refunds[name], status, NOON,
        )  # fmt: skip
    await conn.execute(
        "INSERT INTO payment_reversal (account_id, reversal_id, payment_id, charge_id, end_to_end_id, bank_id,"
        " amount_cents, booked_at) VALUES ($1, $2, $2, $2, 'Ereversed', 'D-reversal', 200, $3)",
        account_id, new_id(), NOON,
    )  # fmt: skip
    await insert_suspense(conn, "Ereturned", 300)
    await insert_suspense(conn, "Eopen", 300, returned=False)
    await insert_suspense(conn, "Eelsewhere", 300, bank=OTHER)
    for boleto, bank, returned in (("11", BANK, True), ("12", BANK, False), ("13", OTHER, True)):
        await insert_suspense(conn, f"{boleto}/400", 400, bank=bank, boleto=boleto, returned=returned)
    # (the bank's id, endToEndId, boleto's number, the amount in our books)
    items: list[tuple[str, str, str | None, int | None]] = [
        ("D-refund", "E1", None, 100),
        ("D-failed", "E2", None, None),
        ("D-reversal", "Ereversed", None, 200),
        ("D-reversal", "E3", None, None),
        ("D-other", "Ereversed", None, None),
        ("D-suspense", "Ereturned", None, 300),
        ("D-open", "Eopen", None, None),
        ("D-elsewhere", "Eelsewhere", None, None),
        ("D-boleto", "E4", "11", 50),
        ("D-boleto-open", "E5", "12", None),
        ("D-boleto-elsewhere", "E6", "13", None),
    ]
    for bank_id, end_to_end_id, number, here_cents in items:
        (row,) = await find_returns(
            conn, bank=BANK, ids=[bank_id], refund_ids=[refunds.get(bank_id)], end_to_end_ids=[end_to_end_id],
            boleto_numbers=[number], cents=[50],
        )  # fmt: skip
        assert (row.reference, row.here_cents) == (f"{end_to_end_id}/{bank_id}", here_cents)
    parts = {"Ereturned/D1": 100, "Ereturned/D2": 200}
    rows = await find_returns(
        conn, bank=BANK, ids=["D1", "D2"], refund_ids=[None] * 2, end_to_end_ids=["Ereturned"] * 2,
        boleto_numbers=[None] * 2, cents=list(parts.values()),
    )  # fmt: skip
    assert {row.reference: row.here_cents for row in rows} == parts, "returned in two parts"


async def test_a_refund_is_missed_in_the_list_of_its_own_bank_once_it_succeeded(conn: Any, pool: Any) -> None:
    account_id, today = await make_account(pool), datetime.now(UTC)
    # (status, bank, test, by transfer)
    kinds = [
        ("succeeded", BANK, False, False), ("succeeded", BANK, False, True), ("failed", BANK, False, True),
        ("pending", BANK, False, False), ("succeeded", OTHER, False, False), ("succeeded", BANK, True, False),
    ]  # fmt: skip
    ids = [new_id() for _ in kinds]
    for refund_id, (status, bank, test, by_transfer) in zip(ids, kinds, strict=True):
        charge_id = await insert_charge(conn, account_id, test=test, bank=bank)
        await conn.execute(
            "INSERT INTO refund (account_id, refund_id, test, charge_id, payment_id, amount_cents, status, created_at,"
            " transfer_day) VALUES ($1, $2, $3, $4, $4, 100, $5, $6, $7)",
            account_id, refund_id, test, charge_id, status, NOON, NOON.date() if by_transfer else None,
        )  # fmt: skip
    for transfers, missed in ((False, [ids[0]]), (True, [ids[1]])):
        for listed, expected in (([], missed), (missed, [])):
            rows = await find_refunds_not_listed(
                conn, first_id=first_id(today - timedelta(days=1)), last_id=first_id(today + timedelta(days=1)),
                bank=BANK, transfers=transfers, listed=listed, limit=10_000,
            )  # fmt: skip
            assert [row.id for row in rows if row.account_id == account_id] == expected
    # A transfer that failed here is not in the books, until its sending is booked.
    rows = await find_transfers(conn, ids=ids[1:3])
    assert {row.id: row.here_cents for row in rows} == {ids[1]: 100, ids[2]: None}


async def test_a_payout_key_names_the_accounts_that_have_it_or_asked_for_it(conn: Any, pool: Any) -> None:
    account_id, another = await make_account(pool), await make_account(pool)
    await conn.execute("UPDATE account SET pix_key = 'now@example.com' WHERE account_id = $1", account_id)
    for key in ("once@example.com", "other@example.com"):
        await conn.execute(
            "INSERT INTO payout_change (change_id, account_id, pix_key, document, asked_by, by_staff, asked_at,"
            " effective_at) VALUES ($1, $2, $3, '12345678000190', 'x', false, $4, $4)",
            new_id(), another, key, NOON,
        )  # fmt: skip
    rows = await find_accounts_of_keys(conn, keys=["now@example.com", "once@example.com", "nobody@example.com"])
    assert {(row.pix_key, row.account_id) for row in rows} == {
        ("now@example.com", account_id), ("once@example.com", another),
    }  # fmt: skip
