"""Compare a span of the banks' lists with our books, after a restore to an earlier instant.

Receipts that are missing here are booked on the way, once each, by the code that books them at any other time. The rest
are differences for people: nothing else is changed (`quita recover compare`). A bank lists the money of all cells; what
another cell looks after is not missing here.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec import Struct, structs

import sql
from banks.boletos import PaidBoleto
from banks.lists import BankPage
from banks.protocol import RECEIVED_WIDTH_MAX, CobState, Unknown
from banks.received import PixReturn, ReceivedPix
from banks.transfers import SentTransfer
from domain.instants import day_begins, day_of
from domain.refund import RETURN_WITHIN
from runtime.ids import first_id
from runtime.postgres import session, transaction
from workers.context import Context
from workers.incoming.boleto_payments import book_listed
from workers.incoming.comparison import DIFFERENCES_MAX, Comparison, StatementDifference, TooManyDifferences
from workers.incoming.intervals import WIDTH, days_of
from workers.incoming.own_share import OwnShare, read_share
from workers.incoming.pix_payments import book_pix, charge_at_bank, charge_id_from_txid
from workers.incoming.slices import BankSilent, NoList, slices

_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)
_UNANSWERED_MAX: Final = 10
"""Charges and boletos that a bank gives no answer about, after which it counts as silent: each takes up to 20 s."""


class _BookedItem(Struct, frozen=True, gc=False):
    reference: str
    here_cents: int | None
    account_id: UUID | None


class _NotListed(Struct, frozen=True, gc=False):
    reference: str
    here_cents: int
    account_id: UUID
    charge_id: UUID


class _SentMoney(Struct, frozen=True, gc=False):
    """A refund or a withdrawal."""

    id: UUID
    here_cents: int | None
    account_id: UUID | None


class _AccountOfKey(Struct, frozen=True, gc=False):
    pix_key: str
    account_id: UUID


find_pix = sql.many("statement.pix", _BookedItem)
plan_comparison = sql.run("statement.plan")
find_pix_not_listed = sql.many("statement.pix_not_listed", _NotListed)
find_boletos = sql.many("statement.boletos", _BookedItem)
find_boletos_not_listed = sql.many("statement.boletos_not_listed", _NotListed)
find_returns = sql.many("statement.returns", _BookedItem)
find_refunds_not_listed = sql.many("statement.refunds_not_listed", _SentMoney)
find_transfers = sql.many("statement.transfers", _SentMoney)
find_withdrawals_not_listed = sql.many("statement.withdrawals_not_listed", _SentMoney)
find_accounts_of_keys = sql.many("statement.accounts_of_keys", _AccountOfKey)


async def compare_statement(
    context: Context, *, since: datetime, until: datetime, progress: Callable[[str, str], None]
) -> Comparison:
    """Compare every bank of production, by all of its lists, from `since` to `until`. May be run again, also beside
    workers: nothing is booked twice. Raises BankSilent, or TooManyDifferences.

    `progress` is told the bank and what is compared next.
    """
    comparison = Comparison(since=since, until=until)
    sent: set[UUID] | None = set()
    async with session(context.pool) as conn:
        share = await read_share(conn)
    for bank in sorted(context.banks.production):
        statement = _BankStatement(context, bank, comparison, share)
        for kind, compare in (
            ("pix", statement.compare_received_pix),
            ("boleto", statement.compare_boletos),
            ("return", statement.compare_returns),
            ("transfer", statement.compare_transfers),
        ):
            progress(bank, kind)
            await compare()
        sent = None if sent is None or statement.sent is None else sent | statement.sent
    if sent is not None:
        # Once a withdrawal has ended, no row tells which bank sent it.
        statement = _BankStatement(context, context.settings.bank, comparison, share)
        await statement.report_withdrawals_not_listed(sent)
    return comparison


class _BankStatement:
    """The comparison of one bank."""

    def __init__(self, context: Context, bank: str, comparison: Comparison, share: OwnShare) -> None:
        self._context, self._bank, self._comparison, self._share = context, bank, comparison, share
        self._port = context.banks.production[bank]
        self.sent: set[UUID] | None = set()
        """Ids, possibly ours, of the transfers it sent; None when it does not list them."""
        self._unanswered = 0

    async def compare_received_pix(self) -> None:
        pix = self._port.pix

        async def fetch(since: datetime, until: datetime, after: str | None) -> Any:
            return await pix.received_page(since, until, after)

        intervals = slices(fetch, self._comparison.since, self._comparison.until, width_max=WIDTH, width_min=_SECOND)
        async for since, until, pages in intervals:
            # The parts that went back are booked and counted with the returns.
            items = [structs.replace(each, returned=()) for each in self._read_items("pix", pages)]
            by_end_to_end_id = {each.end_to_end_id: each for each in items if each.boleto_number is None}
            before = await self._find_pix(by_end_to_end_id.values())
            await book_pix(self._context, self._bank, items)
            self._report_items(
                "pix",
                {key: each.amount_cents for key, each in by_end_to_end_id.items()},
                before,
                await self._find_pix(by_end_to_end_id.values()),
                {key for key, each in by_end_to_end_id.items() if self._is_own(each)},
            )
            await self._report_pix_not_listed(
                since, until, [*(each.end_to_end_id for each in items), *_unreadable_abouts(pages)]
            )

    async def _find_pix(self, received: Iterable[ReceivedPix]) -> Sequence[_BookedItem]:
        items = list(received)
        async with session(self._context.pool) as conn:
            return await find_pix(
                conn,
                bank=self._bank,
                charge_ids=[charge_id_from_txid(each.txid) for each in items],
                end_to_end_ids=[each.end_to_end_id for each in items],
            )

    async def _report_pix_not_listed(self, since: datetime, until: datetime, listed: list[str]) -> None:
        async with transaction(self._context.pool) as conn:
            await plan_comparison(conn)
            rows = await find_pix_not_listed(
                conn, bank=self._bank, since=since, until=until, listed=listed, limit=DIFFERENCES_MAX
            )
        for row in rows:
            # A list may show money late, so the charge itself is asked for.
            state = await charge_at_bank(self._port, row.charge_id.hex)
            if isinstance(state, CobState) and any(row.reference == each.end_to_end_id for each in state.received):
                continue
            what = self._why_not_found(state)
            self._add_difference("pix", what, row.reference, here_cents=row.here_cents, account_id=row.account_id)

    async def compare_boletos(self) -> None:
        boletos = self._port.boletos

        async def fetch(since: datetime, until: datetime, after: str | None) -> Any:
            return await boletos.paid_page(*days_of(since, until), after)

        since = day_begins(day_of(self._comparison.since))
        until = day_begins(day_of(self._comparison.until) + _DAY)
        async for begin, end, pages in slices(fetch, since, until, width_max=_WEEK, width_min=_DAY):
            items: list[PaidBoleto] = self._read_items("boleto", pages)
            # A page may name a boleto twice, the second time with a greater total.
            totals = {each.number: each.paid_cents for each in sorted(items, key=lambda each: each.paid_cents)}
            before = await self._find_boletos(list(totals))
            await book_listed(self._context, self._bank, items)
            own = {number for number in totals if self._share.has_boleto(self._bank, number)}
            self._report_items("boleto", totals, before, await self._find_boletos(list(totals)), own)
            await self._report_boletos_not_listed(begin, end, [*totals, *_unreadable_abouts(pages)])

    async def _find_boletos(self, numbers: list[str]) -> Sequence[_BookedItem]:
        async with session(self._context.pool) as conn:
            return await find_boletos(conn, bank=self._bank, numbers=numbers)

    async def _report_boletos_not_listed(self, since: datetime, until: datetime, listed: list[str]) -> None:
        async with transaction(self._context.pool) as conn:
            await plan_comparison(conn)
            rows = await find_boletos_not_listed(
                conn, bank=self._bank, since=since, until=until, listed=listed, limit=DIFFERENCES_MAX
            )
        for row in rows:
            state = await self._port.boletos.find_boleto(row.reference)
            paid_cents = getattr(state, "paid_cents", None)
            if paid_cents is None or paid_cents < row.here_cents:
                what = "amount" if paid_cents else self._why_not_found(state)
                self._add_difference(
                    "boleto",
                    what,
                    row.reference,
                    bank_cents=paid_cents,
                    here_cents=row.here_cents,
                    account_id=row.account_id,
                )

    async def compare_returns(self) -> None:
        pix = self._port.pix

        async def fetch(since: datetime, until: datetime, after: str | None) -> Any:
            return await pix.received_page(since, until, after, returned=True)

        listed: set[UUID] = set()
        # What went back since the instant may have been received before it.
        since = self._comparison.since - RETURN_WITHIN
        intervals = slices(fetch, since, self._comparison.until, width_max=RECEIVED_WIDTH_MAX, width_min=_SECOND)
        async for _, _, pages in intervals:
            items: list[ReceivedPix] = self._read_items("return", pages)
            # The id of a devolucao is unique for its PIX only. A page may name a PIX twice.
            returned = {f"{pix.end_to_end_id}/{each.id}": (each, pix) for pix in items for each in pix.returned}
            ids = {key: charge_id_from_txid(each.id) for key, (each, _) in returned.items()}
            before = await self._find_returns(returned, ids)
            await book_pix(self._context, self._bank, items)
            cents = {key: each.amount_cents for key, (each, _) in returned.items()}
            # One that the bank began has no id of ours, and follows the money.
            own = {
                key
                for key, (_, pix) in returned.items()
                if (self._is_own(pix) if (id := ids[key]) is None else self._share.has_charge(id))
            }
            self._report_items("return", cents, before, await self._find_returns(returned, ids), own)
            listed |= {id for id in ids.values() if id is not None}
        await self._report_refunds_not_listed("return", listed, transfers=False)

    async def _find_returns(
        self, returned: dict[str, tuple[PixReturn, ReceivedPix]], ids: dict[str, UUID | None]
    ) -> Sequence[_BookedItem]:
        async with session(self._context.pool) as conn:
            return await find_returns(
                conn,
                bank=self._bank,
                ids=[each.id for each, _ in returned.values()],
                refund_ids=[ids[key] for key in returned],
                end_to_end_ids=[pix.end_to_end_id for _, pix in returned.values()],
                boleto_numbers=[pix.boleto_number for _, pix in returned.values()],
                cents=[each.amount_cents for each, _ in returned.values()],
            )

    async def compare_transfers(self) -> None:
        transfers = self._port.transfers
        listed: set[UUID] = set()
        self.sent = None
        intervals = slices(
            transfers.sent_page, self._comparison.since, self._comparison.until, width_max=WIDTH, width_min=_SECOND
        )
        try:
            async for _, _, pages in intervals:
                items: list[SentTransfer] = self._read_items("transfer", pages)
                sent = {each.id: each for each in items if each.status != "not_done"}
                ids = {each: charge_id_from_txid(each) for each in sent}
                listed |= {id for id in ids.values() if id is not None}
                await self._report_transfers(sent, ids)
        except NoList as error:
            self._add_difference("transfer", "not_listed", str(error))
            return
        self.sent = listed
        await self._report_refunds_not_listed("transfer", listed, transfers=True)

    async def report_withdrawals_not_listed(self, listed: set[UUID]) -> None:
        """Report withdrawals that succeeded here and that no bank lists as sent."""
        async with transaction(self._context.pool) as conn:
            await plan_comparison(conn)
            rows = await find_withdrawals_not_listed(conn, **self._id_range(), listed=list(listed))
        self._report_missing_at_bank("transfer", rows)

    async def _report_transfers(self, sent: dict[str, SentTransfer], ids: dict[str, UUID | None]) -> None:
        async with session(self._context.pool) as conn:
            rows = await find_transfers(conn, ids=[id for id in ids.values() if id is not None])
            keys = [each.pix_key for each in sent.values() if each.pix_key]
            of_keys = {row.pix_key: row.account_id for row in await find_accounts_of_keys(conn, keys=keys)}
        by_id = {row.id: row for row in rows}
        for id, each in sent.items():
            booked = None if (ours := ids[id]) is None else by_id.get(ours)
            if booked is None or booked.here_cents is None:
                if not self._share.has_charge(ours):
                    continue
                account_id = of_keys.get(each.pix_key or "")
                self._add_difference(
                    "transfer",
                    "missing_here",
                    id,
                    bank_cents=each.amount_cents,
                    account_id=account_id,
                    at=each.asked_at,
                )
            elif booked.here_cents != each.amount_cents:
                self._add_difference(
                    "transfer",
                    "amount",
                    id,
                    bank_cents=each.amount_cents,
                    here_cents=booked.here_cents,
                    account_id=booked.account_id,
                )

    async def _report_refunds_not_listed(self, kind: str, listed: set[UUID], *, transfers: bool) -> None:
        async with transaction(self._context.pool) as conn:
            await plan_comparison(conn)
            rows = await find_refunds_not_listed(
                conn, **self._id_range(), bank=self._bank, transfers=transfers, listed=list(listed)
            )
        self._report_missing_at_bank(kind, rows)

    def _report_missing_at_bank(self, kind: str, rows: Sequence[_SentMoney]) -> None:
        for row in rows:
            self._add_difference(
                kind, "missing_at_bank", row.id.hex, here_cents=row.here_cents, account_id=row.account_id
            )

    def _why_not_found(self, state: object) -> str:
        """The difference for an item that the bank neither lists nor shows when asked for it."""
        if not isinstance(state, Unknown):
            return "missing_at_bank"
        # A bank may never answer about one charge, and payouts are held until the comparison has reached its end.
        self._unanswered += 1
        if self._unanswered > _UNANSWERED_MAX:
            raise BankSilent(state.detail)
        return "unanswered"

    def _id_range(self) -> dict[str, Any]:
        first, last = first_id(self._comparison.since), first_id(self._comparison.until)
        return {"first_id": first, "last_id": last, "limit": DIFFERENCES_MAX}

    def _read_items(self, kind: str, pages: Sequence[BankPage[Any]]) -> list[Any]:
        items = [item for page in pages for item in page.items]
        self._comparison.listed += len(items)
        for about in _unreadable_abouts(pages):
            self._add_difference(kind, "unreadable", about)
        return items

    def _report_items(
        self,
        kind: str,
        bank_cents: dict[str, int],
        before: Sequence[_BookedItem],
        after: Sequence[_BookedItem],
        own: Container[str],
    ) -> None:
        """Count what was missing and is booked now; report what is still missing of `own`, the references of what this
        cell looks after, and what has another amount."""
        missing = {
            row.reference: row.here_cents or 0 for row in before if (row.here_cents or 0) < bank_cents[row.reference]
        }
        for row in after:
            cents = bank_cents[row.reference]
            if row.here_cents == cents:
                if row.reference in missing:
                    self._comparison.booked += 1
                    self._comparison.booked_cents += cents - missing[row.reference]
                continue
            if row.here_cents is None and row.reference not in own:
                continue
            what = "missing_here" if row.here_cents is None else "amount"
            self._add_difference(
                kind, what, row.reference, bank_cents=cents, here_cents=row.here_cents, account_id=row.account_id
            )

    def _is_own(self, pix: ReceivedPix) -> bool:
        if pix.boleto_number is not None:
            return self._share.has_boleto(self._bank, pix.boleto_number)
        return self._share.has_charge(charge_id_from_txid(pix.txid))

    def _add_difference(
        self,
        kind: str,
        what: str,
        reference: str,
        *,
        bank_cents: int | None = None,
        here_cents: int | None = None,
        account_id: UUID | None = None,
        at: datetime | None = None,
    ) -> None:
        if len(self._comparison.differences) >= DIFFERENCES_MAX:
            raise TooManyDifferences
        self._comparison.differences.append(
            StatementDifference(
                bank=self._bank, of=kind, what=what, reference=reference, bank_cents=bank_cents, here_cents=here_cents,
                account_id=account_id, at=at,
            )
        )  # fmt: skip


def _unreadable_abouts(pages: Sequence[BankPage[Any]]) -> list[str]:
    """What the bank lists and cannot be read. It is listed all the same: asked for, it cannot be read either."""
    return [each.about for page in pages for each in page.unreadable]
