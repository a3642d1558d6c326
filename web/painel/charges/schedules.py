"""Charge schedules: the list, the form of a new schedule, and the page of one with the outcome of each numbered charge.

Production only, as for the API (contract section 13).
"""

from datetime import date, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec
from litestar.exceptions import NotFoundException
from litestar.response import Response
from msgspec import UnsetType

from commands.people.audit import AlreadySent
from commands.schedules import CHANGES, METHODS, PIX, NewSchedule, change_schedule, create_schedule
from domain.brazilian import brl
from domain.charge import DESCRIPTION_MAX, EXTERNAL_ID_MAX
from domain.errors import Code, Refused
from domain.instants import day_of
from domain.money import BOLETO_CENTS_MAX, PIX_CENTS_MAX, reais
from domain.schedules.recurrence import CHARGES_MAX, ISSUE_DAYS_BEFORE_MAX, Frequency, Recurrence
from readmodels.charges.schedule import (
    NumberFilters,
    ScheduleFilters,
    ScheduleProjection,
    schedule_by_id,
    schedule_page,
    scheduled_charges,
)
from readmodels.dashboard.charge import payers_of_schedules
from readmodels.page import SequencePosition, TimePosition
from runtime.ids import new_id
from runtime.postgres import session
from runtime.seal import SCHEDULE_PAYER
from web.head import parameter_in
from web.painel.charges.boleto_terms import DEFAULTS, SCHEDULE_FIELDS, form_values, read_schedule_terms
from web.painel.charges.charge_list import settle
from web.painel.charges.new_charge import (
    ADDRESS,
    CNPJ_SIGNS,
    SWITCH,
    boleto_payer,
    charge_made_by_form,
    check_approved,
    check_boletos,
    form_fingerprint,
    pix_payer,
)
from web.painel.charges.payer_choice import PayerSearch, read_payer_search
from web.painel.charges.prefill import unmask_known_document
from web.painel.fields import Filled
from web.painel.labels import FREQUENCIES, refusal
from web.painel.list_page import ListPage
from web.painel.page_request import PageRequest
from web.painel.rows import cents, instant, payer_lines, schedules_with_payers

_ISSUE_DAYS_BEFORE_DEFAULT = "10"
# By the last word of the path: the command's change, the action in the audit log, and the key of the DONE message.
_CHANGES: Final = {
    "pausar": ("pause", "schedule.paused", "pausada"),
    "retomar": ("resume", "schedule.resumed", "continuada"),
    "cancelar": ("cancel", "schedule.cancelled", "encerrada"),
}
_FORM_REFUSALS: Final = frozenset({Code.KYC_REQUIRED, Code.MERCHANT_ADDRESS_REQUIRED})


async def show(request: PageRequest) -> Response[Any]:
    return await _schedule_page(request)


async def _schedule_page(request: PageRequest, *, cancel_fault: str = "") -> Response[Any]:
    """Answers the page of one schedule with the outcome of its charges, the newest first."""
    schedule = await _find_schedule(request)
    schedule_id = UUID(schedule.schedule_id)
    async with session(request.pool) as conn:
        payers = await payers_of_schedules(conn, [schedule_id], request.session.account_id, seal=request.seal)
    payer = payers.get(schedule_id)
    values = {
        "schedule": schedule,
        "payer": {} if payer is None else payer_lines(payer, request.payers),
        "conditions": _condition_sentences(schedule),
        "base": request.here(f"/programacoes/{schedule.schedule_id}"),
        "changes": [word for word, (change, _, _) in _CHANGES.items() if schedule.status in CHANGES[change][0]],
        "cancel_fault": cancel_fault,
    }
    return await NUMBERS.page(request, NUMBERS.query(request), values, status=400 if cancel_fault else 200)


def _condition_sentences(schedule: ScheduleProjection) -> list[str]:
    """Returns fine, interest and discounts of each charge, in words."""
    sentences = []
    for each in schedule.discounts or ():
        days = (
            "no vencimento"
            if each.days_before_due == 0
            else f"até {_days_text(each.days_before_due)} antes do vencimento"
        )
        sentences.append(f"Desconto de {_percent_or_amount(each.percent, each.amount)} {days}.")
    if schedule.fine:
        sentences.append(
            f"Multa de {_percent_or_amount(schedule.fine.percent, schedule.fine.amount)} depois do vencimento."
        )
    if schedule.interest:
        rate = schedule.interest.percent_per_month
        period = "ao mês" if rate else "por dia de atraso"
        sentences.append(f"Juros de {_percent_or_amount(rate, schedule.interest.amount_per_day)} {period}.")
    if schedule.payable_days_after_due:
        sentences.append(f"Pode ser pago até {_days_text(schedule.payable_days_after_due)} depois do vencimento.")
    return sentences


def _percent_or_amount(percent: str | UnsetType, amount: str | UnsetType) -> str:
    if percent:
        return f"{percent.replace('.', ',')}%"
    return brl(cents(amount or "0.00"))


def _days_text(count: int) -> str:
    return "1 dia" if count == 1 else f"{count} dias"


async def pause(request: PageRequest) -> Response[Any]:
    return await _change_status(request, "pausar")


async def resume(request: PageRequest) -> Response[Any]:
    return await _change_status(request, "retomar")


async def cancel(request: PageRequest) -> Response[Any]:
    if request.field("sure") != "yes":
        return await _schedule_page(request, cancel_fault="Confirme que quer cancelar.")
    return await _change_status(request, "cancelar")


async def show_new(request: PageRequest) -> Response[Any]:
    method = parameter_in(request.http.scope, "forma")
    first = _today(request) + timedelta(days=int(_ISSUE_DAYS_BEFORE_DEFAULT) + 1)
    shown = {
        "frequency": "monthly",
        "first_due_date": first.isoformat(),
        "issue_days_before": _ISSUE_DAYS_BEFORE_DEFAULT,
    }
    shown |= DEFAULTS
    return _form_page(request, method if method in METHODS else PIX, Filled(shown=shown))


async def create(request: PageRequest) -> Response[Any]:
    method = request.field("forma")
    filled = Filled(request)
    if method not in METHODS:
        filled.wrong("form", "Escolha Pix ou boleto.")
        return _form_page(request, PIX, filled)
    if (other_method := request.field(SWITCH)) in METHODS:
        return _form_page(request, other_method, filled)
    await unmask_known_document(request, filled)
    if (search := await read_payer_search(request, filled)) is not None:
        return _form_page(request, method, search.filled, search=search)
    new_schedule = _read_schedule(request, filled, method)
    try:
        if not filled.faults:
            check_approved(request)
            if method != PIX:
                await check_boletos(request, filled, None)
        if filled.faults or new_schedule is None:
            return _form_page(request, method, filled)
        schedule_id = await _store_schedule(request, new_schedule)
    except AlreadySent:
        earlier_id = await charge_made_by_form(request, filled)
        if earlier_id is None:
            return _form_page(request, method, filled)
        schedule_id = earlier_id
    except Refused as refused:
        if refused.code not in _FORM_REFUSALS:
            raise
        filled.wrong("form", refusal(refused.code))
        return _form_page(request, method, filled, status=refused.code.status)
    return request.go(request.here(f"/programacoes/{schedule_id}"), done="programada")


async def _store_schedule(request: PageRequest, new_schedule: NewSchedule) -> UUID:
    async with request.change(
        "schedule.created",
        subject=str(new_schedule.schedule_id),
        method=new_schedule.payment_method,
        amount=reais(new_schedule.amount_cents),
    ) as conn:
        if not await create_schedule(conn, new_schedule, now=request.now):
            raise AlreadySent
    return new_schedule.schedule_id


async def _change_status(request: PageRequest, word: str) -> Response[Any]:
    """Changes the schedule's status. As in the API, the change succeeds too if the schedule has that status already."""
    change, action, done = _CHANGES[word]
    schedule = await _find_schedule(request)
    async with request.change(action, subject=schedule.schedule_id) as conn:
        await change_schedule(conn, UUID(schedule.schedule_id), request.session.account_id, change)
    return request.go(request.here(f"/programacoes/{schedule.schedule_id}"), done=done)


def _read_schedule(request: PageRequest, filled: Filled, method: str) -> NewSchedule | None:
    """Returns the schedule that the form asks for; None when the form has faults."""
    amount_cents = filled.cents("amount", PIX_CENTS_MAX if method == PIX else BOLETO_CENTS_MAX)
    frequency = filled.choice("frequency", FREQUENCIES)
    first = filled.day("first_due_date", first=_today(request) + timedelta(days=1))
    end = filled.day("end_date", first=first, required=False)
    max_charges = filled.whole("max_charges", 1, CHARGES_MAX)
    if end is not None and max_charges is not None:
        filled.wrong("max_charges", "Escolha até quando ou quantas, não as duas coisas.")
    days_before = filled.whole("issue_days_before", 0, ISSUE_DAYS_BEFORE_MAX)
    external_id = filled.text("external_id", EXTERNAL_ID_MAX)
    description = filled.text("description", DESCRIPTION_MAX)
    schedule_id = new_id()
    document: str | None
    terms = None
    issue_days_before = int(_ISSUE_DAYS_BEFORE_DEFAULT) if days_before is None else days_before
    if method == PIX:
        pix_fields = pix_payer(request, filled)
        payer_json, document = msgspec.json.encode(pix_fields), pix_fields.get("document")
    else:
        payer = boleto_payer(request, filled)
        terms = read_schedule_terms(
            filled,
            amount_cents=amount_cents,
            issue_days_before=issue_days_before,
            company=payer is not None and len(payer.document) == CNPJ_SIGNS,
        )
        if payer is None:
            return None
        payer_json, document = msgspec.json.encode(payer), payer.document
    if filled.faults or amount_cents is None or first is None:
        return None
    return NewSchedule(
        account_id=request.session.account_id,
        key=request.key,
        fingerprint=form_fingerprint(request),
        schedule_id=schedule_id,
        payment_method=method,
        amount_cents=amount_cents,
        recurrence=Recurrence(
            frequency=Frequency(frequency), first_due_date=first, end_date=end, max_charges=max_charges
        ),
        issue_days_before=issue_days_before,
        terms=terms,
        external_id=external_id,
        description=description,
        send_email=filled.has("send_email"),
        payer_sealed=request.seal.seal(payer_json, SCHEDULE_PAYER, schedule_id),
        payer_document_hash=None if document is None else request.seal.blind(document),
    )


async def _find_schedule(request: PageRequest) -> ScheduleProjection:
    async with session(request.pool) as conn:
        schedule = await schedule_by_id(conn, request.id("schedule_id"), request.session.account_id)
    if schedule is None:
        raise NotFoundException
    return schedule


def _today(request: PageRequest) -> date:
    return day_of(request.now)


LIST = ListPage(
    name="schedules",
    path="/programacoes",
    filters=ScheduleFilters,
    fetch=lambda request: schedule_page,
    position=TimePosition,
    at=lambda row: TimePosition(instant(row.created_at), UUID(row.schedule_id)),
    rows=lambda conn, items, request: schedules_with_payers(conn, items, request.owner, request.seal, request.payers),
)
NUMBERS = ListPage(
    name="schedule",
    path="/programacoes",
    filters=NumberFilters,
    read=lambda query, request: NumberFilters(schedule_id=request.id("schedule_id")),
    fetch=lambda request: partial(
        scheduled_charges, seal=request.seal, app_url=request.settings.app_url, now=request.now
    ),
    position=SequencePosition,
    at=lambda row: SequencePosition(row.number),
    before=settle,
)


def _form_page(
    request: PageRequest, method: str, filled: Filled, *, status: int = 400, search: PayerSearch | None = None
) -> Response[Any]:
    values = {
        "form": method,
        "carried": (*ADDRESS, *SCHEDULE_FIELDS, *DEFAULTS) if method == PIX else (),
        "filled": filled,
        "base": request.here("/programacoes/nova"),
        "payers_kept": request.payers.whole,
        "search": search,
        **form_values(filled, SCHEDULE_FIELDS),
        "tomorrow": (_today(request) + timedelta(days=1)).isoformat(),
        "waiting": request.session.kyc != "approved",
    }
    return request.show("new_schedule.html", values, status=status if filled.faults else 200)
