"""Prepares rows of the read models for templates: template filters, and names that other tables hold."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from domain.brazilian import short_id
from domain.charge import Status
from domain.documents import masked, well_formed
from domain.instants import day_of
from domain.mode import Owner
from domain.payer import PayerView
from readmodels.charges.charge import ChargeDoc, Payer, PaymentDoc, charges_by_id
from readmodels.charges.schedule import ScheduleProjection
from readmodels.dashboard.charge import payers_of_charges, payers_of_schedules
from readmodels.dashboard.known_payer import KnownPayer
from readmodels.money.anomalies import OpenAnomaly, open_anomalies_among
from readmodels.money.payment_list import PaymentItem
from readmodels.money.refund import RefundProjection
from readmodels.reports.csv_lines import Cents
from runtime.seal import Seal
from sql import Connection


class ListedCharge(Struct, frozen=True):
    """A charge of a list, and its payer as far as the merchant named one."""

    doc: ChargeDoc
    payer: Payer


class ListedSchedule(Struct, frozen=True):
    """A schedule of a list, and the payer of its charges as far as the merchant named one."""

    schedule: ScheduleProjection
    payer: Payer


class ListedPayment(Struct, frozen=True):
    """A payment of a list; `odd` is its anomaly while that is open."""

    item: PaymentItem
    odd: OpenAnomaly | None


class ReturnedTotals(Struct, frozen=True):
    """Money that went back to payers, by refund or the bank's reversal, and money that pending refunds will return."""

    returned_cents: int
    returning_cents: int


def reference(doc: ChargeDoc) -> str:
    """Returns the merchant's own reference, or else what best tells this charge from the others."""
    return doc.external_id or doc.description or doc.nosso_numero or short_id(doc.charge_id)


def returned_totals(payments: Sequence[PaymentDoc], *, but: PaymentDoc | None = None) -> ReturnedTotals:
    """Returns the totals over a charge's payments, without the payment `but`."""
    others = [each for each in payments if each is not but]
    return ReturnedTotals(
        sum(each.refunded_cents + each.reversed_cents for each in others),
        sum(each.refunding_cents for each in others),
    )


def past_due(doc: ChargeDoc, now: datetime) -> bool:
    """Whether the charge's due date, bank holidays counted, is over and the charge can still be paid, with fine and
    interest."""
    due = doc.effective_due_date or doc.due_date
    return doc.status == Status.PENDING and due is not None and due < day_of(now).isoformat()


def payer_lines(payer: KnownPayer, view: PayerView) -> dict[str, str]:
    """Returns the payer's data by label, as `view` lets this reader see them; the document is masked for everybody."""
    document = payer.document or ""
    lines = {
        "Nome": view.name(payer.name) or "",
        "Documento": masked(document) if well_formed(document, letters=True) else "",
        "E-mail": view.email(payer.email) or "",
        "Telefone": view.phone(payer.phone) or "",
    }
    return {label: text for label, text in lines.items() if text}


def payer_in_view(payer: Payer, view: PayerView) -> Payer:
    return Payer(view.name(payer.name), payer.document)


async def payments_with_payers(
    conn: Connection, items: Sequence[PaymentItem], owner: Owner, seal: Seal, view: PayerView
) -> list[PaymentItem]:
    """Returns payments of a list with their payers. The bank's record of a boleto paid by its line names no payer: the
    row then shows the charge's payer, by name and masked document. The charge's page shows the bank's record as it is.
    """
    nameless = [UUID(item.charge_id) for item in items if not (item.payer.name or item.payer.document)]
    payers = await payers_of_charges(conn, nameless, owner, seal=seal)
    payer_by_charge = {str(charge_id): _listed_payer(payer, view) for charge_id, payer in payers.items()}
    return [
        replace(item, payer=payer_by_charge.get(item.charge_id) or payer_in_view(item.payer, view)) for item in items
    ]


async def listed_payments(
    conn: Connection, items: Sequence[PaymentItem], owner: Owner, seal: Seal, view: PayerView
) -> list[ListedPayment]:
    """Returns the payments of `payments_with_payers`, each with its open anomaly."""
    payments = await payments_with_payers(conn, items, owner, seal, view)
    open_anomalies = await open_anomalies_among(conn, owner, [UUID(item.payment_id) for item in items if item.anomaly])
    return [ListedPayment(item, open_anomalies.get(item.payment_id)) for item in payments]


async def charges_with_payers(
    conn: Connection, docs: Sequence[ChargeDoc], owner: Owner, seal: Seal, view: PayerView
) -> list[ListedCharge]:
    """Charges of a list with their payers."""
    payers = await payers_of_charges(conn, [UUID(doc.charge_id) for doc in docs], owner, seal=seal)
    return [ListedCharge(doc, _listed_payer(payers.get(UUID(doc.charge_id)), view)) for doc in docs]


async def schedules_with_payers(
    conn: Connection, schedules: Sequence[ScheduleProjection], owner: Owner, seal: Seal, view: PayerView
) -> list[ListedSchedule]:
    """Schedules of a list with their payers."""
    payers = await payers_of_schedules(
        conn, [UUID(each.schedule_id) for each in schedules], owner.account_id, seal=seal
    )
    return [ListedSchedule(each, _listed_payer(payers.get(UUID(each.schedule_id)), view)) for each in schedules]


def _listed_payer(payer: KnownPayer | None, view: PayerView) -> Payer:
    if payer is None:
        return Payer(None, None)
    return payer_in_view(Payer(payer.name, payer.document and masked(payer.document)), view)


async def refunds_with_references(
    conn: Connection, items: Sequence[RefundProjection], owner: Owner
) -> list[RefundProjection]:
    """Returns refunds of a list. A refund without a reference shows its charge's, which the merchant knows."""
    docs = await charges_by_id(conn, [(UUID(item.charge_id), owner) for item in items])
    reference_by_charge = {doc.charge_id: reference(doc) for doc in docs if doc is not None}
    return [replace(item, external_id=item.external_id or reference_by_charge.get(item.charge_id)) for item in items]


def metadata_text(metadata: Mapping[str, str]) -> str:
    """Returns the metadata for one cell of a file: a JSON object with sorted keys."""
    return json.dumps(dict(sorted(metadata.items())), ensure_ascii=False)


def instant(at: str | datetime) -> datetime:
    return at if isinstance(at, datetime) else datetime.fromisoformat(at)


def cents(text: str) -> Cents:
    """Returns the cents of an amount as the read models write it (domain.money.reais). A balance may be negative, and
    of any size."""
    return Cents(int(text.replace(".", "")))


def indented(text: str) -> str:
    """Returns JSON over several lines. Other text is returned unchanged: JSON that was cut, or the size of a body."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text
