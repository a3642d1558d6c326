"""Change the due date of a pending boleto, after the bank has confirmed the change.

The PIX leg of a dual charge follows: an order, retried until the bank has carried it out, gives the cob the new expiry.
"""

from datetime import date, datetime
from uuid import UUID

from msgspec.structs import asdict, replace

import sql
from banks.boletos import Agreement
from commands.bank_orders.kinds import CobRevision
from commands.charges.change import ChargeChange, ChargeCommand, Outcome, change_charges
from commands.journal import Event
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import PaymentTerms, expires_at
from domain.charge import Charge, ChargeTransition, after
from domain.errors import Refused
from domain.events import EventKind, due_date_changed_body
from domain.instants import iso
from readmodels.charges.charge import BoletoDoc
from runtime.ids import new_id
from sql import Connection

store_due_date = sql.run("boleto.redated")


async def redate_boleto(
    conn: Connection,
    charge_id: UUID,
    due_on: date,
    *,
    boleto: BoletoDoc,
    terms: PaymentTerms | None = None,
    redated: int,
    pix_until: str | None,
    agreement: Agreement,
    now: datetime,
    actor: str,
    request_id: str | None,
) -> Outcome:
    """Give a pending boleto the due date that the bank has confirmed, and the line, barcode and expiry of that date.

    Fine and interest count from the new date, and the boleto can be paid late for as many days as before; discounts
    keep their days. `boleto` is the boleto before the change, `redated` the number of earlier changes, `pix_until` the
    end of a dual charge's PIX leg that has a lifetime of its own. A Refused(CHARGE_NOT_PENDING) outcome changes
    nothing.
    """

    def decide(charge: Charge, at: datetime) -> list[ChargeChange]:
        barcode, line = agreement.codes(boleto.nosso_numero, due_on=due_on, amount_cents=charge.amount_cents)
        moved = replace(after(charge, ChargeTransition.REDATED), expires_at=expires_at(terms, due_on))
        event_id = new_id()
        body = due_date_changed_body(
            moved, event_id=event_id, due_date=due_on.isoformat(), previous_due_date=boleto.data_vencimento
        )
        changed = replace(boleto, linha_digitavel=line, codigo_barras=barcode, data_vencimento=due_on.isoformat())
        return [
            ChargeChange(
                charge=moved,
                kind=EventKind.CHARGE_DUE_DATE_CHANGED,
                event=Event(event_id, body),
                charge_fields={
                    "due_date": due_on.isoformat(),
                    "effective_due_date": effective_due_date(due_on).isoformat(),
                    "expires_at": iso(moved.expires_at),
                    "redated": redated + 1,
                    "boleto": {name: value for name, value in asdict(changed).items() if value is not None},
                },
                order=CobRevision(None if pix_until is None else datetime.fromisoformat(pix_until))
                if charge.dual
                else None,
            )
        ]

    command = ChargeCommand(charge_id=charge_id, owner=None, decide=decide, actor=actor, request_id=request_id)
    (outcome,) = await change_charges(conn, [command], now=now)
    if not isinstance(outcome, Refused):
        await store_due_date(conn, charge_id=charge_id, account_id=outcome.account_id, due_on=due_on)
    return outcome
