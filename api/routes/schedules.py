"""Charge schedules: what is to be charged again and again (contract section 13). Production only."""

from datetime import date
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from api.answers import Answer, encode
from api.bodies import shaped, text
from api.context import ApiContext
from api.idempotency.replay import count_first, replay
from api.idempotency.used_keys import UsedKey
from api.query import CURSOR, LIMIT, ORDER, Query, one_of, path_id, word
from api.route import Call, Route
from api.routes.boletos import Pagador, boleto_amount, boleto_payer, due_day
from api.routes.dual import DualAddress
from api.routes.pix import DESCRIPTION_MAX, PixPayer, approved, pix_payer
from commands.bank_orders.boleto_orders import find_terms
from commands.schedules import METHODS, PIX, NewSchedule, change_schedule, create_schedule, has_address
from domain.boleto.codes import LAST_DUE
from domain.errors import Code, Refused
from domain.instants import SAO_PAULO, parse_day
from domain.mode import Mode
from domain.money import PIX_CENTS_MAX, parse_amount
from domain.recurrence import CHARGES_MAX, ISSUE_DAYS_BEFORE_MAX, Frequency, Recurrence
from readmodels.charges.schedule import (
    STATUSES,
    ScheduledCharge,
    ScheduleFilters,
    ScheduleProjection,
    schedule_by_id,
    schedule_page,
    scheduled_charges,
)
from readmodels.page import SequencePosition, TimePosition
from runtime.ids import new_id
from runtime.postgres import session, transaction

ISSUE_DAYS_BEFORE_DEFAULT: Final = 10
FREQUENCIES: Final = tuple(each.value for each in Frequency)
_NAMES: Final = {
    "nome": "payer.name",
    "documento": "payer.document",
    "tipoPessoa": "payer.person_type",
    "email": "payer.email",
    "cep": "payer.address.zip_code",
    "logradouro": "payer.address.street",
    "numero": "payer.address.number",
    "cidade": "payer.address.city",
    "uf": "payer.address.state",
}
_PERSON: Final = {11: "PESSOA_FISICA", 14: "PESSOA_JURIDICA"}


class SchedulePayer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Who is to pay. For boletos `name`, `document` and `address` are required, and `person_type` is what the document
    says unless given; for PIX no field is."""

    name: str | None = None
    document: str | None = None
    person_type: str | None = None
    email: str | None = None
    phone: str | None = None
    address: DualAddress | None = None


class CreateSchedule(Struct, frozen=True, kw_only=True):
    """The body. `first_due_date` is after today in Sao Paulo and its day of the month is kept; at most one of
    `end_date` (inclusive) and `max_charges`. Each charge is issued at 06:00 in Sao Paulo, `issue_days_before` its due
    date."""

    payment_method: str
    amount: str
    payer: SchedulePayer
    frequency: str
    first_due_date: str
    end_date: str | None = None
    max_charges: int | None = None
    issue_days_before: int | None = None
    external_id: str | None = None
    description: str | None = None
    send_email: bool | None = None


class SchedulePage(Struct, frozen=True):
    data: list[ScheduleProjection]
    next_cursor: str | None


class ScheduledChargePage(Struct, frozen=True):
    data: list[ScheduledCharge]
    next_cursor: str | None


async def create(context: ApiContext, call: Call) -> Answer:
    """201 with the schedule; 200 when the key made it before."""
    method = call.body.get("payment_method")
    amount_cents = _pix_amount(call.body) if method == PIX else boleto_amount(call.body, "amount")
    first_due_date = due_day(call.body, "first_due_date")
    end_date = _end_date(call.body, first_due_date)
    asked = shaped(call.body, CreateSchedule)
    _check(asked)
    payer_sealed, payer_document_hash = _payer(asked, context)
    new = NewSchedule(
        account_id=call.caller.account_id,
        key=call.key,
        fingerprint=call.fingerprint,
        schedule_id=new_id(),
        payment_method=asked.payment_method,
        amount_cents=amount_cents,
        recurrence=Recurrence(
            frequency=Frequency(asked.frequency),
            first_due_date=first_due_date,
            end_date=end_date,
            max_charges=asked.max_charges,
        ),
        issue_days_before=(ISSUE_DAYS_BEFORE_DEFAULT if asked.issue_days_before is None else asked.issue_days_before),
        external_id=text("external_id", asked.external_id, 255),
        description=text("description", asked.description, DESCRIPTION_MAX),
        send_email=asked.send_email is True,
        payer_sealed=payer_sealed,
        payer_document_hash=payer_document_hash,
    )
    if (used := await context.keys.find(call.key_name)) is not None:
        return await _replay(context, call, used)
    await _allowed(context, call, new)
    async with session(context.pool) as conn:
        made = await create_schedule(conn, new, now=call.now)
    if not made:
        # A twin was faster; its row is there, for the statement waited for it.
        used = await context.keys.find(call.key_name)
        if used is None:
            raise Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=1)
        return await _replay(context, call, used)
    count_first()
    return Answer(encode(await _find(context, call, new.schedule_id)), 201)


async def look_up(context: ApiContext, call: Call) -> Answer:
    return Answer(encode(await _find(context, call, _id(call))))


async def list_schedules(context: ApiContext, call: Call) -> Answer:
    query = Query(call.scope["query_string"], LIST)
    filters = ScheduleFilters(
        statuses=query.choices("status", STATUSES), external_id=query.text("external_id"), order=query.order()
    )
    limit = query.limit()
    bound_to = ["schedules", call.caller.owner, filters]
    cursor = query.cursor()
    after = None if cursor is None else context.cursors.read(cursor, TimePosition, bound_to)
    async with session(context.pool) as conn:
        items, last = await schedule_page(conn, call.caller.account_id, filters, after, limit)
    return Answer(encode(SchedulePage(items, None if last is None else context.cursors.write(last, bound_to))))


async def list_charges(context: ApiContext, call: Call) -> Answer:
    """By number; the newest first unless asked otherwise."""
    query = Query(call.scope["query_string"], OF_SCHEDULE)
    order, limit, cursor = query.order(), query.limit(), query.cursor()
    schedule_id = _id(call)
    await _find(context, call, schedule_id)
    bound_to = ["scheduled charges", call.caller.owner, schedule_id, order]
    after = None if cursor is None else context.cursors.read(cursor, SequencePosition, bound_to)
    await context.charges.expire_overdue(call.caller.owner)
    async with session(context.pool) as conn:
        items, last = await scheduled_charges(
            conn, schedule_id, call.caller.account_id, order, after, limit, seal=context.seal, now=context.now()
        )
    return Answer(encode(ScheduledChargePage(items, None if last is None else context.cursors.write(last, bound_to))))


async def pause(context: ApiContext, call: Call) -> Answer:
    return await _change(context, call, "pause")


async def resume(context: ApiContext, call: Call) -> Answer:
    return await _change(context, call, "resume")


async def cancel(context: ApiContext, call: Call) -> Answer:
    """No more charges are issued; those that were stay as they are."""
    return await _change(context, call, "cancel")


async def _change(context: ApiContext, call: Call, change: str) -> Answer:
    schedule_id = _id(call)
    async with transaction(context.pool) as conn:
        await change_schedule(conn, schedule_id, call.caller.account_id, change)
        found = await schedule_by_id(conn, schedule_id, call.caller.account_id)
    return Answer(encode(found))


async def _replay(context: ApiContext, call: Call, used: UsedKey) -> Answer:
    return await replay(context, call, used, partial(_find, context, call))


async def _allowed(context: ApiContext, call: Call, new: NewSchedule) -> None:
    """What depends on time or state: looked at after the key, so that a replay is answered whatever has changed."""
    if not await approved(context, call):
        raise Refused(Code.KYC_REQUIRED)
    if new.recurrence.first_due_date <= call.now.astimezone(SAO_PAULO).date():
        raise Refused(Code.INVALID_DUE_DATE, fields={"first_due_date": f"must be after today, at most {LAST_DUE}"})
    if new.payment_method == PIX:
        return
    async with session(context.pool) as conn:
        terms = await find_terms(conn, account_id=call.caller.account_id, integrador_code=None)
    if terms is None:
        raise Refused(Code.UNAUTHENTICATED)
    if not has_address(terms.address):
        raise Refused(Code.MERCHANT_ADDRESS_REQUIRED)


async def _find(context: ApiContext, call: Call, schedule_id: UUID) -> ScheduleProjection:
    async with session(context.pool) as conn:
        found = await schedule_by_id(conn, schedule_id, call.caller.account_id)
    if found is None:
        raise Refused(Code.SCHEDULE_NOT_FOUND)
    return found


def _id(call: Call) -> UUID:
    schedule_id = path_id(call.path("schedule_id"))
    if schedule_id is None:
        raise Refused(Code.SCHEDULE_NOT_FOUND)
    return schedule_id


def _pix_amount(body: dict[str, Any]) -> int:
    try:
        return parse_amount(body.get("amount"), most_cents=PIX_CENTS_MAX)
    except ValueError:
        raise Refused(
            Code.AMOUNT_INVALID, fields={"amount": 'must be a string such as "10.50", greater than 0'}
        ) from None


def _end_date(body: dict[str, Any], first: date) -> date | None:
    given = body.get("end_date")
    if given is None:
        return None
    try:
        if not isinstance(given, str):
            raise ValueError
        end = parse_day(given)
    except ValueError:
        raise Refused(Code.DATE_RANGE_INVALID, fields={"end_date": "must be an existing day YYYY-MM-DD"}) from None
    if end < first:
        raise Refused(Code.DATE_RANGE_INVALID, fields={"end_date": "must not be before first_due_date"})
    return min(end, LAST_DUE)


def _check(asked: CreateSchedule) -> None:
    wrong: dict[str, str] = {}
    if asked.payment_method not in METHODS:
        wrong["payment_method"] = f"must be one of {', '.join(METHODS)}"
    if asked.frequency not in FREQUENCIES:
        wrong["frequency"] = f"must be one of {', '.join(FREQUENCIES)}"
    if asked.max_charges is not None and not 1 <= asked.max_charges <= CHARGES_MAX:
        wrong["max_charges"] = f"must be a whole number from 1 to {CHARGES_MAX}"
    if asked.max_charges is not None and asked.end_date is not None:
        wrong["max_charges"] = "must not be given together with end_date"
    if asked.issue_days_before is not None and not 0 <= asked.issue_days_before <= ISSUE_DAYS_BEFORE_MAX:
        wrong["issue_days_before"] = f"must be a whole number from 0 to {ISSUE_DAYS_BEFORE_MAX}"
    if wrong:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)


def _payer(asked: CreateSchedule, context: ApiContext) -> tuple[bytes, str | None]:
    """The payer sealed in the form its charges keep, and the fingerprint of the document."""
    given = asked.payer
    if asked.payment_method == PIX:
        pix = pix_payer(PixPayer(given.name, given.document, given.email, given.phone), context, production=True)
        return context.seal.seal(msgspec.json.encode(pix)), context.seal.blind(
            given.document
        ) if given.document else None
    address, name, document = given.address, given.name, given.document
    missing = [
        field for field, value in (("name", name), ("document", document), ("address", address)) if value is None
    ]
    if address is None or name is None or document is None:
        raise Refused(Code.VALIDATION_ERROR, fields={f"payer.{field}": "is required for a boleto" for field in missing})
    pagador = Pagador(
        nome=name,
        documento=document,
        tipoPessoa=given.person_type or _PERSON.get(len(document), ""),
        cep=address.zip_code,
        logradouro=address.street,
        numero=address.number,
        cidade=address.city,
        uf=address.state,
        email=given.email,
    )
    boleto = boleto_payer(pagador, context, production=True, names=_NAMES, phone=text("payer.phone", given.phone, 32))
    return context.seal.seal(msgspec.json.encode(boleto)), context.seal.blind(document)


OF_SCHEDULE = (ORDER, LIMIT, CURSOR)
LIST = (
    one_of("status", STATUSES, repeatable=True),
    word("external_id", "The schedule's own reference."),
    *OF_SCHEDULE,
)
_PAGE_ERRORS = (Code.VALIDATION_ERROR, Code.LIMIT_INVALID, Code.CURSOR_INVALID)
_PATH: Final = "/v1/charge-schedules"

ROUTES = (
    Route(
        method="POST",
        path=_PATH,
        name="createSchedule",
        summary="Charge a payer again and again",
        tag="Schedules",
        handle=create,
        scopes=("schedules:write",),
        mode=Mode.PRODUCTION,
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
        tag="Schedules",
        handle=list_schedules,
        scopes=("payments:read",),
        mode=Mode.PRODUCTION,
        query=LIST,
        answers={200: SchedulePage},
        errors=_PAGE_ERRORS,
    ),
    Route(
        method="GET",
        path=_PATH + "/{schedule_id:str}",
        name="getSchedule",
        summary="Look a schedule up",
        tag="Schedules",
        handle=look_up,
        scopes=("payments:read",),
        mode=Mode.PRODUCTION,
        answers={200: ScheduleProjection},
        errors=(Code.SCHEDULE_NOT_FOUND,),
    ),
    Route(
        method="GET",
        path=_PATH + "/{schedule_id:str}/charges",
        name="listChargesOfSchedule",
        summary="List what became of a schedule's charges",
        tag="Schedules",
        handle=list_charges,
        scopes=("payments:read", "charges:read"),
        mode=Mode.PRODUCTION,
        query=OF_SCHEDULE,
        answers={200: ScheduledChargePage},
        errors=(Code.SCHEDULE_NOT_FOUND, *_PAGE_ERRORS),
    ),
    *(
        Route(
            method="POST",
            path=_PATH + "/{schedule_id:str}/" + change,
            name=f"{change}Schedule",
            summary=summary,
            tag="Schedules",
            handle=handle,
            scopes=("schedules:write",),
            mode=Mode.PRODUCTION,
            answers={200: ScheduleProjection},
            errors=(Code.SCHEDULE_NOT_FOUND, Code.SCHEDULE_ENDED),
        )
        for change, summary, handle in (
            ("pause", "Issue no charges for a while", pause),
            ("resume", "Go on issuing charges", resume),
            ("cancel", "Issue no more charges", cancel),
        )
    ),
)
