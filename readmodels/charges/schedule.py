"""Charge schedules as they are read: one, a page of them, and the outcome of each number of a schedule."""

from datetime import date, datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct, UnsetType

import sql
from domain.errors import Code
from domain.instants import iso
from domain.mode import Owner
from domain.money import reais
from domain.schedules.recurrence import issue_at
from domain.schedules.terms import ScheduleTerms
from readmodels.charges.agreed import FineAgreed, InterestAgreed, ScheduledDiscountAgreed, schedule_terms_fields
from readmodels.charges.charge import ChargeProjection, Failure, present, read_doc
from readmodels.filters import OneOf
from readmodels.page import ListFilters, SequencePosition, TimePosition, Window, sequence_page, time_page
from runtime.seal import Seal
from sql import Connection

STATUSES = ("active", "paused", "finished", "cancelled")
STATES = ("issued", "skipped", "failed")
_ALL_NUMBERS = Window(0, 2**31 - 1)


class ScheduleFailure(Struct, frozen=True, gc=False):
    """Why the next charge could not be issued yet, although its time has come. It is tried again until its due date has
    passed."""

    number: int
    code: str
    message: str
    failed_at: str


class ScheduleProjection(Struct, frozen=True, gc=False, kw_only=True):
    """A schedule. `next_number`, `next_due_date` and `next_issue_at` are null when no charge follows, `next_issue_at`
    also while the schedule is paused. The payer is not shown. `metadata`, `fine`, `interest` and `discounts` are
    present when the schedule was given them; `payable_days_after_due` is present with payment terms, and is 0 when its
    boletos cannot be paid late."""

    schedule_id: str
    account_id: str
    status: str
    payment_method: str
    amount: str
    frequency: str
    first_due_date: str
    end_date: str | None
    max_charges: int | None
    issue_days_before: int
    fine: FineAgreed | UnsetType = UNSET
    interest: InterestAgreed | UnsetType = UNSET
    discounts: list[ScheduledDiscountAgreed] | UnsetType = UNSET
    payable_days_after_due: int | UnsetType = UNSET
    external_id: str | None
    description: str | None
    send_email: bool
    metadata: dict[str, str] | UnsetType = UNSET
    next_number: int | None
    next_due_date: str | None
    next_issue_at: str | None
    failure: ScheduleFailure | None
    created_at: str
    version: int


class ScheduledCharge(Struct, frozen=True, gc=False, kw_only=True):
    """One charge of a schedule. `state` is issued (`charge` shows it as it is now), skipped (its due date passed while
    the schedule was paused) or failed (it could not be issued before its due date had passed: `failure` says why)."""

    number: int
    due_date: str
    state: str
    charge_id: str | None
    charge: ChargeProjection | None
    failure: Failure | None


class _Row(Struct, frozen=True, gc=False):
    at: datetime
    id: UUID
    status: str
    version: int
    payment_method: str
    amount_cents: int
    frequency: str
    first_due_date: date
    end_date: date | None
    max_charges: int | None
    issue_days_before: int
    terms: bytes | None
    external_id: str | None
    description: str | None
    send_email: bool
    metadata: bytes | None
    next_number: int | None
    next_due_date: date | None
    failure_code: str | None
    failed_at: datetime | None


class _ChargeRow(Struct, frozen=True, gc=False):
    sequence: int
    due_date: date
    state: str
    charge_id: UUID | None
    failure_code: str | None
    doc: bytes | None


class ScheduleFilters(ListFilters, frozen=True, kw_only=True):
    statuses: Annotated[tuple[str, ...], OneOf(STATUSES, "status")] = ()
    external_id: str | None = None


class NumberFilters(ListFilters, frozen=True, kw_only=True):
    schedule_id: UUID


_read_terms = msgspec.json.Decoder(ScheduleTerms).decode
_read_metadata = msgspec.json.Decoder(dict[str, str]).decode
_find = sql.maybe("schedule.find", _Row)
_page = sql.list_of("schedule.page", _Row)
_charges_page = sql.list_of("schedule.charges", _ChargeRow)


async def schedule_by_id(conn: Connection, schedule_id: UUID, account_id: UUID) -> ScheduleProjection | None:
    """The schedule, or None when the account has no such schedule."""
    row = await _find(conn, schedule_id=schedule_id, account_id=account_id)
    return None if row is None else _schedule_projection(row, account_id)


async def schedule_page(
    conn: Connection, owner: Owner, filters: ScheduleFilters, after: TimePosition | None, limit: int
) -> tuple[list[ScheduleProjection], TimePosition | None]:
    """One page in the order (created_at, schedule_id), and the position after which the next page begins."""
    rows, last = await time_page(
        _page,
        conn,
        filters.order,
        after,
        limit,
        account_id=owner.account_id,
        statuses=filters.statuses or STATUSES,
        external_id=filters.external_id,
    )
    return [_schedule_projection(row, owner.account_id) for row in rows], last


async def scheduled_charges(
    conn: Connection,
    owner: Owner,
    filters: NumberFilters,
    after: SequencePosition | None,
    limit: int,
    *,
    seal: Seal,
    app_url: str,
    now: datetime,
) -> tuple[list[ScheduledCharge], SequencePosition | None]:
    """One page of a schedule's numbers, each with its charge or the reason why there is none."""
    rows, last = await sequence_page(
        _charges_page,
        conn,
        filters.order,
        after,
        limit,
        _ALL_NUMBERS,
        schedule_id=filters.schedule_id,
        account_id=owner.account_id,
    )
    return [_scheduled_charge(row, seal, app_url, now) for row in rows], last


def _schedule_projection(row: _Row, account_id: UUID) -> ScheduleProjection:
    failure = None
    if row.failure_code is not None and row.failed_at is not None and row.next_number is not None:
        failure = ScheduleFailure(row.next_number, row.failure_code, Code[row.failure_code].message, iso(row.failed_at))
    has_next_issue = row.status == "active" and row.next_due_date is not None
    return ScheduleProjection(
        schedule_id=str(row.id),
        account_id=str(account_id),
        status=row.status,
        payment_method=row.payment_method,
        amount=reais(row.amount_cents),
        frequency=row.frequency,
        first_due_date=row.first_due_date.isoformat(),
        end_date=None if row.end_date is None else row.end_date.isoformat(),
        max_charges=row.max_charges,
        issue_days_before=row.issue_days_before,
        **schedule_terms_fields(None if row.terms is None else _read_terms(row.terms)),
        external_id=row.external_id,
        description=row.description,
        send_email=row.send_email,
        metadata=UNSET if row.metadata is None else dict(sorted(_read_metadata(row.metadata).items())),
        next_number=None if row.status == "cancelled" else row.next_number,
        next_due_date=(
            None if row.next_due_date is None or row.status == "cancelled" else row.next_due_date.isoformat()
        ),
        next_issue_at=(
            iso(issue_at(row.next_due_date, days_before=row.issue_days_before))
            if has_next_issue and row.next_due_date is not None
            else None
        ),
        failure=failure,
        created_at=iso(row.at),
        version=row.version,
    )


def _scheduled_charge(row: _ChargeRow, seal: Seal, app_url: str, now: datetime) -> ScheduledCharge:
    return ScheduledCharge(
        number=row.sequence,
        due_date=row.due_date.isoformat(),
        state=row.state,
        charge_id=None if row.charge_id is None else str(row.charge_id),
        charge=None if row.doc is None else present(read_doc(row.doc).at(iso(now)), seal, app_url=app_url, now=now),
        failure=None if row.failure_code is None else Failure(row.failure_code, Code[row.failure_code].message),
    )
