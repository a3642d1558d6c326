"""Re-seal with the current key every value that an older key has sealed, so that the older key can be removed.

Works through a range of table pages at a time, each range in its own transaction. The run may be interrupted at any
point and repeated, while the product is running.
"""

from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from msgspec import Struct

import sql
from runtime.seal import (
    CAUGHT_MAIL,
    CELL_ADDRESSES,
    CHARGE_PAYER,
    DESTINATION,
    MAIL_NOTE,
    MAIL_TO,
    PAYMENT_PAYER,
    SCHEDULE_PAYER,
    SIMULATED_BOLETO_PAYER,
    SIMULATED_COB_PAYER,
    SIMULATED_SIGNING_KEY,
    SUSPENDED_PAYER,
    TOTP,
    UNREADABLE,
    WEBHOOK_SECRET,
    Seal,
)
from sql import Connection

_PAGES: Final = 200
_ROUNDS_MAX: Final = 20


class SealedColumn(Struct, frozen=True):
    """A column with sealed bytes: `what` names the secret, and `bound` the columns of the row key that the bytes are
    bound to. `member` is the member of a jsonb column that holds the bytes in base64; a dot leads to a nested member.
    """

    table: str
    column: str
    what: str
    bound: tuple[str, ...]
    member: str | None = None

    def __str__(self) -> str:
        return f"{self.table}.{self.column}" + (f".{self.member}" if self.member else "")


SEALED: Final = (
    SealedColumn("charge", "payer_sealed", CHARGE_PAYER, ("charge_id",)),
    SealedColumn("payment", "payer_sealed", PAYMENT_PAYER, ("payment_id",)),
    SealedColumn("schedule", "payer_sealed", SCHEDULE_PAYER, ("schedule_id",)),
    SealedColumn("suspense", "payer_sealed", SUSPENDED_PAYER, ("source",)),
    SealedColumn("bank_unreadable", "item_sealed", UNREADABLE, ("bank", "method", "about")),
    SealedColumn("bank_order", "request", CHARGE_PAYER, ("charge_id",), "payer_sealed"),
    # A reconciliation order holds the order it follows (commands/bank_orders/kinds.py): after a creation, its whole
    # request with the sealed payer.
    SealedColumn("bank_order", "request", CHARGE_PAYER, ("charge_id",), "request.payer_sealed"),
    SealedColumn("bank_order", "request", DESTINATION, ("order_id",), "destination_sealed"),
    SealedColumn("held_refund", "request", DESTINATION, ("refund_id",), "destination_sealed"),
    SealedColumn("webhook_endpoint", "secret_sealed", WEBHOOK_SECRET, ("account_id",)),
    SealedColumn("webhook_old_secret", "secret_sealed", WEBHOOK_SECRET, ("account_id",)),
    SealedColumn("dashboard_user", "totp_sealed", TOTP, ("email",)),
    SealedColumn("mail", "to_sealed", MAIL_TO, ("mail_id",)),
    SealedColumn("mail", "note_sealed", MAIL_NOTE, ("mail_id",)),
    SealedColumn("cell", "addresses_sealed", CELL_ADDRESSES, ("number",)),
    SealedColumn("cell", "next_sealed", CELL_ADDRESSES, ("number",)),
    SealedColumn("caught_mail", "message_sealed", CAUGHT_MAIL, ("mail_id",)),
    SealedColumn("simulated_cob", "payer_sealed", SIMULATED_COB_PAYER, ("txid",)),
    SealedColumn("simulated_boleto", "payer_sealed", SIMULATED_BOLETO_PAYER, ("number",)),
    SealedColumn("simulated_signing_key", "private_sealed", SIMULATED_SIGNING_KEY, ("kid",)),
)


class Rekeyed(Struct, frozen=True):
    """Counts of rows: `resealed` with the current key, and `unopened`, which no key of SECRET_KEY opens."""

    resealed: int
    unopened: int


class _SealedRow(Struct, frozen=True):
    at: str
    row_key: str
    sealed: bytes


find_sealed_by_older_key = sql.many("sealed.otherwise", _SealedRow)
put = sql.one("sealed.put", int)
count_pages = sql.one("sealed.pages", int)


async def rekey(
    conn: Connection, seal: Seal, *, progress: Callable[[SealedColumn, int, int, int], None] | None = None
) -> Rekeyed:
    """Go over every sealed column until no value sealed by an older key is left. `conn` must be in no transaction.

    `progress` receives the column, the number of its pages done, the number of its pages in all, and the number of rows
    re-sealed so far.
    """
    resealed = unopened = 0
    for column in SEALED:
        for _ in range(_ROUNDS_MAX):
            resealed_now, unopened_now = await _rekey_column(conn, column, seal, resealed, progress)
            resealed += resealed_now
            if not resealed_now:  # a row that an update moved to another page during a round is found by the next round
                break
        unopened += unopened_now
    return Rekeyed(resealed, unopened)


async def _rekey_column(
    conn: Connection,
    column: SealedColumn,
    seal: Seal,
    resealed_before: int,
    progress: Callable[[SealedColumn, int, int, int], None] | None,
) -> tuple[int, int]:
    """Returns how many rows were re-sealed, and how many no key opens."""
    pages = await count_pages(conn, table=column.table)
    resealed = unopened = 0
    for first in range(0, pages, _PAGES):
        rows = await find_sealed_by_older_key(
            conn,
            table=column.table,
            column=column.column,
            member=column.member,
            bound=column.bound,
            current=seal.current,
            first=first,
            pages=_PAGES,
        )
        opened = []
        for row in rows:
            try:
                opened.append((row, seal.open(row.sealed, column.what, row.row_key)))
            except InvalidTag:
                unopened += 1
        if opened:
            resealed += await put(
                conn,
                table=column.table,
                column=column.column,
                member=column.member,
                places=[row.at for row, _ in opened],
                before=[row.sealed for row, _ in opened],
                after=[seal.seal(plain, column.what, row.row_key) for row, plain in opened],
            )
        if progress is not None:
            progress(column, min(first + _PAGES, pages), pages, resealed_before + resealed)
    return resealed, unopened
