"""Charge schedules, which issue charges repeatedly (contract section 13). Production only."""

from functools import partial
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from api.answers import Answer, encode
from api.body.fields import (
    DAY,
    Amount,
    BoletoAmount,
    Description,
    DueDay,
    Email,
    Metadata,
    Reference,
    boleto_cents,
    checked,
    choice,
    due_day,
    pix_cents,
)
from api.body.payers import (
    COMPANY,
    ENGLISH_NAMES,
    PERSON_TYPES,
    AnyDocument,
    DualAddress,
    DualPayer,
    Name,
    PersonType,
    Phone,
    PixPayer,
    boleto_payer,
    check_document,
    pagador_of,
    seal_payer,
)
from api.body.reading import convert_body
from api.body.terms import (
    FineField,
    InterestField,
    PayableDays,
    ScheduledDiscountsField,
    refuse_terms,
    schedule_terms,
)
from api.context import ApiContext
from api.gate import approved_now, check_terms
from api.idempotency.replay import answer_created, replay
from api.paging import PagedList, page_of
from api.query import Query
from api.route import Call, Route, routes_of
from commands.schedules import METHODS, PIX, NewSchedule, change_schedule, create_schedule
from domain.boleto.codes import LAST_DUE
from domain.errors import Code, Refused, required
from domain.identifiers import parse_id
from domain.instants import day_of, parse_day
from domain.mode import Mode
from domain.schedules.recurrence import CHARGES_MAX, ISSUE_DAYS_BEFORE_MAX, Frequency, Recurrence
from readmodels.charges.schedule import (
    NumberFilters,
    ScheduledCharge,
    ScheduleFilters,
    ScheduleProjection,
    schedule_by_id,
    schedule_page,
    scheduled_charges,
)
from readmodels.page import ListFilters, SequencePosition, TimePosition
from runtime.ids import new_id
from runtime.postgres import session, transaction
from runtime.seal import SCHEDULE_PAYER

ISSUE_DAYS_BEFORE_DEFAULT: Final = 10
FREQUENCIES: Final = tuple(each.value for each in Frequency)
_PERSON_TYPES_BY_DIGITS: Final = {signs: name for name, signs in PERSON_TYPES.items()}


class SchedulePayer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payer. For boletos `name`, `document` and `address` are required, and `person_type` by default follows from
    the document; for PIX no field is required."""

    name: Name | None = None
    document: AnyDocument | None = None
    person_type: PersonType | None = None
    email: Email | None = None
    phone: Phone | None = None
    address: DualAddress | None = None


class CreateSchedule(Struct, frozen=True, kw_only=True):
    """The schedule to create. Later due dates keep the day of `first_due_date`; give at most one of `end_date`
    (inclusive) and `max_charges`. Each charge is issued at 06:00 in São Paulo, `issue_days_before` days before its due
    date."""

    payment_method: Annotated[str, choice(METHODS)]
    amount: Annotated[Amount, Meta(description="Amount in reais, as a decimal string greater than 0.")]
    payer: SchedulePayer
    frequency: Annotated[str, choice(FREQUENCIES)]
    first_due_date: Annotated[
        DueDay, Meta(description=f"Due date: after today in São Paulo, {LAST_DUE} at the latest.")
    ]
    end_date: Annotated[
        Annotated[str, checked(parse_day, "must be an existing day YYYY-MM-DD", code=Code.DATE_RANGE_INVALID, **DAY)]
        | None,
        Meta(description="Latest possible due date, inclusive; not allowed together with max_charges."),
    ] = None
    max_charges: Annotated[int, Meta(ge=1, le=CHARGES_MAX)] | None = None
    issue_days_before: (
        Annotated[int, Meta(ge=0, le=ISSUE_DAYS_BEFORE_MAX, extra_json_schema={"default": ISSUE_DAYS_BEFORE_DEFAULT})]
        | None
    ) = None
    external_id: Annotated[
        Reference | None, Meta(description="Your own reference, given to each charge of the schedule.")
    ] = None
    description: Description | None = None
    send_email: bool | None = None
    metadata: Metadata | None = None
    fine: FineField = None
    interest: InterestField = None
    discounts: ScheduledDiscountsField = None
    payable_days_after_due: PayableDays = None


class CreateBoletoSchedule(CreateSchedule, frozen=True, kw_only=True):
    """CreateSchedule with the bound of a boleto's amount in the type, so that its AMOUNT_INVALID goes before the faults
    that have no code of their own."""

    amount: BoletoAmount


SchedulePage = page_of(ScheduleProjection, "SchedulePage")
ScheduledChargePage = page_of(ScheduledCharge, "ScheduledChargePage")


async def create(context: ApiContext, call: Call) -> Answer:
    """Answers 201 with the schedule; 200 when the key made it before."""
    pix = call.body.get("payment_method") == PIX
    body = convert_body(call.body, CreateSchedule if pix else CreateBoletoSchedule)
    if pix:
        refuse_terms(call.body)
    amount_cents = pix_cents(body.amount) if pix else boleto_cents(body.amount)
    first_due_date = due_day(body.first_due_date)
    end_date = None if body.end_date is None else parse_day(body.end_date)
    if end_date is not None and end_date < first_due_date:
        raise Refused(Code.DATE_RANGE_INVALID, fields={"end_date": "must not be before first_due_date"})
    if body.max_charges is not None and end_date is not None:
        fault = "must not be given together with end_date"
        raise Refused(Code.VALIDATION_ERROR, fields={"max_charges": fault})
    schedule_id = new_id()
    payer_sealed, payer_document_hash = _sealed_payer(body, context, schedule_id)
    issue_days_before = ISSUE_DAYS_BEFORE_DEFAULT if body.issue_days_before is None else body.issue_days_before
    terms = schedule_terms(
        body,
        amount_cents=amount_cents,
        issue_days_before=issue_days_before,
        company=len(body.payer.document or "") == PERSON_TYPES[COMPANY],
    )
    new = NewSchedule(
        account_id=call.caller.account_id,
        key=call.key,
        fingerprint=call.fingerprint,
        schedule_id=schedule_id,
        payment_method=body.payment_method,
        amount_cents=amount_cents,
        recurrence=Recurrence(
            frequency=Frequency(body.frequency),
            first_due_date=first_due_date,
            end_date=None if end_date is None else min(end_date, LAST_DUE),
            max_charges=body.max_charges,
        ),
        issue_days_before=issue_days_before,
        terms=terms,
        external_id=body.external_id,
        description=body.description,
        send_email=body.send_email is True,
        metadata=body.metadata,
        payer_sealed=payer_sealed,
        payer_document_hash=payer_document_hash,
    )
    if (used := await context.keys.find(call.key_name)) is not None:
        return await replay(context, call, used, partial(_find_schedule, context, call))
    await _check_allowed(context, call, new)
    async with session(context.pool) as conn:
        is_created = await create_schedule(conn, new, now=call.now)
    if is_created:
        return answer_created(await _find_schedule(context, call, new.schedule_id), f"{_PATH}/{new.schedule_id}")
    # An equal request was faster. Its row is committed, because our statement waited for it at the primary key.
    used = await context.keys.find(call.key_name)
    if used is None:
        raise Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=1)
    return await replay(context, call, used, partial(_find_schedule, context, call))


async def look_up(context: ApiContext, call: Call) -> Answer:
    return Answer(encode(await _find_schedule(context, call, _schedule_id(call))))


async def list_schedules(context: ApiContext, call: Call) -> Answer:
    return await SCHEDULES.read(context, call).page(schedule_page)


async def list_charges(context: ApiContext, call: Call) -> Answer:
    """Answers a page of the schedule's charges by number, newest first by default."""

    def row_filters(query: ListFilters, _: Query) -> NumberFilters:
        return NumberFilters(schedule_id=_schedule_id(call), order=query.order)

    request = OF_SCHEDULE.read(context, call, row_filters)
    await _find_schedule(context, call, _schedule_id(call))
    await context.charges.expire_overdue(call.caller.owner)
    read_page = partial(scheduled_charges, seal=context.seal, app_url=context.settings.app_url, now=context.now())
    return await request.page(read_page)


async def pause(context: ApiContext, call: Call) -> Answer:
    return await _change(context, call, "pause")


async def resume(context: ApiContext, call: Call) -> Answer:
    return await _change(context, call, "resume")


async def cancel(context: ApiContext, call: Call) -> Answer:
    """Ends the schedule: no more charges are issued, and issued ones stay as they are."""
    return await _change(context, call, "cancel")


async def _change(context: ApiContext, call: Call, change: str) -> Answer:
    schedule_id = _schedule_id(call)
    async with transaction(context.pool) as conn:
        await change_schedule(conn, schedule_id, call.caller.account_id, change)
        schedule = await schedule_by_id(conn, schedule_id, call.caller.account_id)
    return Answer(encode(schedule))


async def _check_allowed(context: ApiContext, call: Call, new: NewSchedule) -> None:
    """Checks what depends on time or state. Called after the idempotency lookup, so that a replay is answered whatever
    has changed since."""
    if not await approved_now(context, call):
        raise Refused(Code.KYC_REQUIRED)
    if new.recurrence.first_due_date <= day_of(call.now):
        raise Refused(
            Code.INVALID_DUE_DATE,
            message="The first due date of a schedule must be after today in São Paulo.",
            fields={"first_due_date": f"must be after today, at most {LAST_DUE}"},
        )
    if new.payment_method == PIX:
        return
    await check_terms(context, call, integrador_code=None)


async def _find_schedule(context: ApiContext, call: Call, schedule_id: UUID) -> ScheduleProjection:
    async with session(context.pool) as conn:
        return required(await schedule_by_id(conn, schedule_id, call.caller.account_id), Code.SCHEDULE_NOT_FOUND)


def _schedule_id(call: Call) -> UUID:
    return required(parse_id(call.path("schedule_id")), Code.SCHEDULE_NOT_FOUND)


def _sealed_payer(body: CreateSchedule, context: ApiContext, schedule_id: UUID) -> tuple[bytes, str | None]:
    """Returns the payer, sealed in the form that the schedule's charges store, and the fingerprint of the document."""
    payer = body.payer
    if body.payment_method == PIX:
        if payer.document is not None:
            check_document("payer.document", payer.document, context, production=True)
        pix_payer = PixPayer(payer.name, payer.document, payer.email, payer.phone)
        return seal_payer(pix_payer, payer.document, context, schedule_id, what=SCHEDULE_PAYER)
    fields = {name: value for name, value in msgspec.to_builtins(payer).items() if value is not None}
    person_type = _PERSON_TYPES_BY_DIGITS.get(len(payer.document or ""), next(iter(PERSON_TYPES)))
    dual_payer = convert_body({"person_type": person_type} | fields, DualPayer, within="payer.")
    bank_payer = boleto_payer(
        pagador_of(dual_payer), context, production=True, names=ENGLISH_NAMES, phone=dual_payer.phone
    )
    return seal_payer(bank_payer, dual_payer.document, context, schedule_id, what=SCHEDULE_PAYER)


OF_SCHEDULE: PagedList[ListFilters] = PagedList("scheduled charges", SequencePosition, ListFilters)
SCHEDULES = PagedList(
    "schedules", TimePosition, ScheduleFilters, {"external_id": "Only schedules with exactly this `external_id`."}
)
_PATH: Final = "/v1/charge-schedules"

ROUTES = routes_of(
    "Schedules",
    Route(
        method="POST",
        path=_PATH,
        name="createSchedule",
        summary="Create a schedule that charges a payer at regular intervals",
        handle=create,
        scopes=("schedules:write",),
        key=True,
        body=CreateSchedule,
        answers={201: ScheduleProjection, 200: ScheduleProjection},
        errors=(
            Code.AMOUNT_INVALID,
            Code.INVALID_DUE_DATE,
            Code.DATE_RANGE_INVALID,
            Code.IDEMPOTENCY_KEY_REUSED,
            Code.KYC_REQUIRED,
            Code.MERCHANT_ADDRESS_REQUIRED,
        ),
    ),
    Route(
        method="GET",
        path=_PATH,
        name="listSchedules",
        summary="List schedules",
        handle=list_schedules,
        scopes=("payments:read",),
        query=SCHEDULES.parameters,
        answers={200: SchedulePage},
        errors=SCHEDULES.errors,
    ),
    Route(
        method="GET",
        path=_PATH + "/{schedule_id:str}",
        name="getSchedule",
        summary="Look up a schedule",
        handle=look_up,
        scopes=("payments:read",),
        answers={200: ScheduleProjection},
        errors=(Code.SCHEDULE_NOT_FOUND,),
    ),
    Route(
        method="GET",
        path=_PATH + "/{schedule_id:str}/charges",
        name="listChargesOfSchedule",
        summary="List a schedule's charges: issued, skipped or failed",
        handle=list_charges,
        scopes=("payments:read", "charges:read"),
        query=OF_SCHEDULE.parameters,
        answers={200: ScheduledChargePage},
        errors=(Code.SCHEDULE_NOT_FOUND, *OF_SCHEDULE.errors),
    ),
    *(
        Route(
            method="POST",
            path=_PATH + "/{schedule_id:str}/" + change,
            name=f"{change}Schedule",
            summary=summary,
            handle=handle,
            scopes=("schedules:write",),
            answers={200: ScheduleProjection},
            errors=(Code.SCHEDULE_NOT_FOUND, Code.SCHEDULE_ENDED),
        )
        for change, summary, handle in (
            ("pause", "Pause a schedule: it issues no charges until it is resumed", pause),
            ("resume", "Resume a paused schedule", resume),
            ("cancel", "Cancel a schedule: it issues no more charges", cancel),
        )
    ),
    mode=Mode.PRODUCTION,
)
