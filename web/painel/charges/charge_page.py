"""The page of one charge: its data, its history, its payments and refunds, and the actions on it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from litestar.exceptions import NotFoundException
from litestar.response import Response
from msgspec import Struct

from commands.charges.expire import expire_charges
from commands.mail import MAILED
from domain.boleto.terms import amount_due
from domain.brazilian import brl
from domain.charge import DUAL, Status
from domain.instants import day_of, iso, parse_day
from domain.payer import PayerView
from readmodels.charges.boleto import boleto_to_print
from readmodels.charges.charge import ChargeDoc, charges_by_id, legs_of, open_payer
from readmodels.charges.conditions import portuguese_conditions
from readmodels.charges.second_copies import SecondCopyRequest, second_copy_of
from readmodels.dashboard.charge import (
    ChargeJournalRow,
    Written,
    actor_emails,
    journal_rows_of_charge,
    mails_of_charge,
    payments_of,
)
from readmodels.dashboard.known_payer import payer_of_charge
from readmodels.money.anomalies import open_anomalies_among
from readmodels.money.refund_list import RefundFilters, refund_page
from readmodels.webhooks.delivery_list import Delivery, DeliveryFilters, delivery_page
from runtime.postgres import session, transaction
from web.painel.fields import Filled
from web.painel.labels import (
    DELIVERY_STATES,
    KINDS,
    LIFE,
    MAIL_KINDS,
    MAIL_STATES,
    OUTCOMES,
)
from web.painel.page_request import PageRequest
from web.painel.rows import instant, payer_in_view, payer_lines, returned_totals

_DELIVERIES_MAX = 20
_REFUNDS_MAX = 20


class TimelineEntry(Struct, frozen=True):
    """A line of a charge's history. `sort`: charge | mail | webhook; `chip` is a state shown beside the line."""

    at: datetime
    sort: str
    title: str
    said: str = ""
    chip: str = ""
    chip_tone: str = ""
    link: str = ""


def _sharing_values(request: PageRequest, doc: ChargeDoc) -> dict[str, str]:
    link = f"{request.settings.app_url}/pagar/{doc.public_id}"
    share_text = f"Cobrança de {request.session.name}: {brl(doc.amount_cents)}. Veja e pague aqui: {link}"
    return {"payer_link": link, "share_text": share_text}


async def show_boleto(request: PageRequest) -> Response[bytes]:
    """Answers the boleto as a PDF, whatever the status of its charge."""
    async with session(request.pool) as conn:
        boleto = await boleto_to_print(
            conn,
            request.id("charge_id"),
            request.owner,
            seal=request.seal,
            settings=request.settings,
            now=request.now,
        )
    if boleto is None:
        raise NotFoundException
    headers = {"Content-Disposition": f'inline; filename="{boleto.file_name}"', "Cache-Control": "no-store"}
    pdf: bytes = await request.http.app.state.printer.printed(boleto)
    return Response(pdf, headers=headers, media_type="application/pdf")


async def show(request: PageRequest) -> Response[Any]:
    return await show_charge(request)


async def show_charge(
    request: PageRequest,
    *,
    redate: Filled | None = None,
    mail: Filled | None = None,
    paying: Filled | None = None,
    cancel_fault: str = "",
) -> Response[Any]:
    """Answers the page of the charge; a form that could not be accepted is shown as it was filled in."""
    charge_id = request.id("charge_id")
    owner = request.owner
    doc = await charge_of(request, charge_id)
    async with session(request.pool) as conn:
        payer = await payer_of_charge(conn, charge_id, owner, seal=request.seal)
        life = await journal_rows_of_charge(conn, charge_id, owner)
        people = await actor_emails(conn, owner.account_id, life)
        payments = await payments_of(conn, charge_id, owner)
        open_anomalies = await open_anomalies_among(
            conn, owner, [UUID(each.payment_id) for each in payments if each.anomaly]
        )
        refunds, _ = await refund_page(conn, owner, RefundFilters(charge_id=charge_id), None, _REFUNDS_MAX)
        mails = [] if owner.test else await mails_of_charge(conn, charge_id, owner.account_id, seal=request.seal)
        second_copy = await second_copy_of(conn, charge_id, owner)
        deliveries, _ = await delivery_page(conn, owner, DeliveryFilters(charge_id=charge_id), None, _DELIVERIES_MAX)
    entries = [
        TimelineEntry(instant(doc.created_at), "charge", "Cobrança criada"),
        *_life_entries(life, people),
        *_mail_entries(mails, request.payers),
        *_second_copy_entries(second_copy),
        *_delivery_entries(deliveries, request),
    ]
    values = {
        "doc": doc,
        "pending": doc.status == Status.PENDING,
        "second_copy": second_copy if doc.status == Status.EXPIRED else None,
        **_terms_values(doc, request.account_now),
        "legs": legs_of(doc, now=iso(request.account_now)) if doc.payment_method == DUAL else (),
        "has_email": bool(payer and payer.email),
        "mailed": not owner.test and doc.status in MAILED,
        "payer": None if payer is None else payer_lines(payer, request.payers),
        "payments": payments,
        "odd": open_anomalies,
        "gone_back": {each.payment_id: returned_totals(payments, but=each) for each in payments},
        "paid_by": lambda payment: payer_in_view(open_payer(payment, request.seal), request.payers),
        "refunds": refunds,
        "lines": sorted(entries, key=lambda entry: entry.at),
        "cancel_fault": cancel_fault,
        "today": day_of(request.account_now).isoformat(),
        "redate": redate or Filled(shown={"due_date": doc.due_date or ""}),
        "mail": mail
        or Filled(shown={"to": request.payers.email(payer.email if payer else "") or "", "attach_pdf": "yes"}),
        "paying": paying or Filled(shown={"times": "1"}),
        "base": request.here(f"/cobrancas/{charge_id}"),
        **_sharing_values(request, doc),
    }
    return request.show("charge.html", values, status=400 if redate or mail or paying or cancel_fault else 200)


def _second_copy_entries(second_copy: SecondCopyRequest | None) -> list[TimelineEntry]:
    if second_copy is None:
        return []
    times = "" if second_copy.times == 1 else f", {second_copy.times} dias ao todo"
    return [TimelineEntry(second_copy.asked_at, "charge", f"O pagador pediu a 2ª via{times}")]


def _terms_values(doc: ChargeDoc, now: datetime) -> dict[str, Any]:
    """Returns the terms agreed beside the amount, and the amount due today."""
    if doc.terms is None or doc.due_date is None:
        return {"conditions": (), "asked": None}
    due, today = parse_day(doc.due_date), day_of(now)
    return {
        "conditions": portuguese_conditions(doc.terms, amount_cents=doc.amount_cents, due=due),
        "asked": amount_due(doc.terms, amount_cents=doc.amount_cents, due=due, on=today),
    }


async def charge_of(request: PageRequest, charge_id: UUID) -> ChargeDoc:
    """Returns the account's charge as it is now, after expiring it if its time has passed."""
    async with session(request.pool) as conn:
        (doc,) = await charges_by_id(conn, [(charge_id, request.owner)])
    if doc is not None and doc.overdue(iso(request.account_now)):
        async with transaction(request.pool) as conn:
            await expire_charges(conn, [charge_id], now=request.now, actor="read")
            (doc,) = await charges_by_id(conn, [(charge_id, request.owner)])
    if doc is None:
        raise NotFoundException
    return doc


def _life_entries(life: Sequence[ChargeJournalRow], people: Mapping[str, str]) -> list[TimelineEntry]:
    return [
        TimelineEntry(each.recorded_at, "charge", LIFE.get(each.kind, each.kind), _actor_text(each.actor, people))
        for each in life
    ]


def _actor_text(actor: str, people: Mapping[str, str]) -> str:
    if actor in people:
        return f"por {people[actor]}, no painel"
    if actor.startswith(("test_", "production_")):
        return f"pela API, credencial {actor}"
    return "pelo banco" if actor == "bank" else ""


def _mail_entries(mails: Sequence[Written], view: PayerView) -> list[TimelineEntry]:
    tones = {"sent": "delivered", "failed": "exhausted"}
    return [
        TimelineEntry(
            each.sent_at or each.created_at,
            "mail",
            MAIL_KINDS[each.kind],
            f"para {view.email(each.to)}",
            MAIL_STATES[each.state],
            tones.get(each.state, "pending"),
        )
        for each in mails
    ]


def _delivery_entries(deliveries: Sequence[Delivery], request: PageRequest) -> list[TimelineEntry]:
    """Returns a line for each attempt of each delivery. A delivery not attempted yet has a line at its creation."""
    may_open = request.may(f"GET {request.here('/webhooks/entregas/{delivery_id:str}')}")
    entries = []
    for each in deliveries:
        link = request.here(f"/webhooks/entregas/{each.delivery_id}") if may_open else ""
        title = f"Webhook: {KINDS[each.type]}"
        for attempt in each.attempts:
            text = f"tentativa {attempt.attempt}: {OUTCOMES[attempt.outcome]}"
            text += f" ({attempt.status})" if attempt.status else ""
            entries.append(TimelineEntry(instant(attempt.started_at), "webhook", title, text, link=link))
        if not each.attempts or each.state != "delivered":
            chip = DELIVERY_STATES[each.state]
            at = instant(each.attempts[-1].started_at if each.attempts else each.created_at)
            entries.append(TimelineEntry(at, "webhook", title, "", chip, each.state, link))
    return entries
