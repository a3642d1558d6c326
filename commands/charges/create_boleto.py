"""Issue boletos: order the registration with the nosso numero chosen, and create the charge once the bank has
registered the boleto.

The order holds the whole future charge, so the worker that reads the bank's confirmation can create it. One statement
writes key, charge, boleto, journal and read row and ends the order (sql/queries/charges/boleto.sql, issue). That
statement also orders the cob of a dual charge, so a creation that is given up leaves neither leg.
"""

from base64 import b64encode
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import sql
from banks.boletos import Agreement
from banks.protocol import Location
from commands.bank_orders.kinds import CobRequest, Payload, PixLeg, Registration
from commands.charges.issuer import Issuer
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import PaymentTerms, expires_at
from domain.charge import DUAL, Status
from domain.instants import iso, to_millisecond
from domain.pix.br_code import dynamic_br_code
from domain.sandbox_clock import on_clock
from readmodels.charges.charge import BoletoDoc, ChargeDoc
from runtime.ids import new_id, page_token
from sql import Connection

ISSUED_MAX = 100
ORDERED_MAX = 100


class BoletoRequest(Struct, frozen=True, gc=False, kw_only=True):
    """A valid request to issue a boleto."""

    issuer: Issuer
    key: str
    fingerprint: bytes
    charge_id: UUID
    """Chosen by the caller: the payer is sealed as this charge's."""
    request_id: str
    kind: str
    amount_cents: int
    due_on: date
    terms: PaymentTerms | None = None
    payer_sealed: bytes
    """banks.boletos.BoletoPayer as JSON, sealed."""
    payer_document_hash: str | None
    external_id: str | None
    description: str | None
    integrador_code: str | None = None
    scenario: str | None = None
    send_email: bool = False
    metadata: dict[str, str] | None = None
    schedule_id: str | None = None
    """The schedule that issues the charge, if one does."""
    pix_lifetime_s: int | None = None
    """For a dual charge whose PIX leg has a lifetime of its own."""


class RegistrationOrder(Struct, frozen=True, gc=False, kw_only=True):
    order_id: UUID
    account_id: UUID
    charge_id: UUID
    test: bool
    bank: str
    created_at: datetime
    due_at: datetime | None = None
    """When the order is due, if not at `created_at`."""
    deadline: datetime
    reply_to: str | None
    """None when no request waits for the outcome."""
    request: Registration


class RegistrationResult(Struct, frozen=True, gc=False, kw_only=True):
    """A boleto the bank has registered for an order, at the real instant `at`; `qr_code` is the hybrid's."""

    order_id: UUID
    attempts: int
    reconcile_id: UUID
    request: Registration
    qr_code: str | None
    at: datetime
    cob_order_id: UUID | None = None
    """The id of the order for the cob, for a dual charge."""
    ahead_s: int = 0
    """By how much the charge's clock is ahead of real time."""


class _IssueResult(Struct, frozen=True, gc=False):
    settled: list[UUID] | None
    charge_ids: list[UUID] | None
    projected: int | None


class _IssueItem(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    order_id: UUID | None = None
    attempts: int | None = None
    reconcile_id: UUID | None = None
    key: str | None = None
    fingerprint: str | None = None
    payer_sealed: str
    payer_document_hash: str | None = None
    actor: str
    request_id: str
    registered_at: datetime
    expires_at: str | None
    payload: Payload
    location: str | None = None
    cob_order_id: UUID | None = None
    cob: CobRequest | None = None
    at: datetime | None = None


order_registrations = sql.many("boleto.order_registrations", UUID)
find_ordered = sql.many("boleto.ordered", UUID)
_issue = sql.one("boleto.issue", _IssueResult)
_issue_found = sql.run("boleto.issue_found")
_encode = msgspec.json.Encoder().encode
read_registration = msgspec.json.Decoder(Registration).decode


def compose_boleto(
    request: BoletoRequest,
    control: int,
    location: Location | None = None,
    *,
    agreement: Agreement,
    now: datetime,
    due_at: datetime | None = None,
    deadline: datetime,
    reply_to: str | None,
) -> RegistrationOrder:
    """Returns the order to register the boleto, with the future charge; `location` is the location of the cob of a dual
    charge."""
    issuer, charge_id = request.issuer, request.charge_id
    assert location is None or (request.kind == DUAL and request.terms is None), "kept ready are places of cobs"
    doc = _compose_doc(request, charge_id, control, agreement=agreement, now=now)
    order = RegistrationOrder(
        order_id=new_id(),
        account_id=issuer.account_id,
        charge_id=charge_id,
        test=issuer.test,
        bank=agreement.bank,
        created_at=now,
        due_at=due_at,
        deadline=deadline,
        reply_to=reply_to,
        request=Registration(
            key=request.key,
            fingerprint=request.fingerprint.hex(),
            actor=issuer.actor,
            request_id=request.request_id,
            payer_sealed=b64encode(request.payer_sealed).decode(),
            payer_document_hash=request.payer_document_hash,
            payload=Payload(doc),
            scenario=request.scenario,
            pix=PixLeg(pix_key=issuer.pix_key, name=issuer.name, city=issuer.city, lifetime_s=request.pix_lifetime_s)
            if request.kind == DUAL
            else None,
        ),
    )
    return order if location is None else replace(order, request=placed(order.request, location))


def placed(request: Registration, location: Location) -> Registration:
    """Returns the registration with a location for the PIX leg of a dual charge. The QR Code is printed once, so it
    carries no amount when the charge's amount depends on the day."""
    leg, doc = request.pix, request.payload.charge
    assert leg is not None, "only a dual charge has a PIX leg"
    qr_code = dynamic_br_code(
        location=location.location,
        amount_cents=doc.amount_cents if doc.terms is None else None,
        name=leg.name,
        city=leg.city,
    )
    return replace(
        request,
        pix=replace(leg, location_id=location.location_id, location=location.location),
        payload=Payload(replace(doc, qr_code=qr_code)),
    )


def _compose_doc(
    request: BoletoRequest,
    charge_id: UUID,
    control: int,
    *,
    agreement: Agreement,
    now: datetime,
) -> ChargeDoc:
    issuer = request.issuer
    due_date = request.due_on.isoformat()
    number = agreement.number(control)
    barcode, line = agreement.codes(number, due_on=request.due_on, amount_cents=request.amount_cents)
    return ChargeDoc(
        account_id=str(issuer.account_id),
        charge_id=str(charge_id),
        test=issuer.test,
        public_id=page_token(),
        external_id=request.external_id,
        payment_method=request.kind,
        status=Status.PENDING,
        version=1,
        amount_cents=request.amount_cents,
        description=request.description,
        txid=charge_id.hex if request.kind == DUAL else None,
        nosso_numero=number,
        boleto=BoletoDoc(
            nosso_numero=number,
            seu_numero=agreement.seu_numero(request.external_id, control=control),
            linha_digitavel=line,
            codigo_barras=barcode,
            tipo_cobranca=request.kind,
            data_vencimento=due_date,
        ),
        terms=request.terms,
        integrador_code=request.integrador_code,
        send_email=request.send_email,
        metadata=request.metadata,
        schedule_id=request.schedule_id,
        created_at=iso(now),
        due_date=due_date,
        effective_due_date=effective_due_date(request.due_on).isoformat(),
        expires_at=iso(expires_at(request.terms, request.due_on)),
    )


async def order_boletos(conn: Connection, orders: Sequence[RegistrationOrder]) -> set[UUID]:
    """Write the orders whose idempotency keys have made nothing and have no order under way. Returns their ids, and the
    ids of orders that an earlier call wrote although its answer was lost."""
    assert len(orders) <= ORDERED_MAX
    written = set(await order_registrations(conn, items=[_encode(order) for order in orders]))
    others = [order.order_id for order in orders if order.order_id not in written]
    if others:
        written.update(await find_ordered(conn, order_ids=others))
    return written


async def issue_boletos(conn: Connection, boletos: Sequence[RegistrationResult]) -> tuple[set[UUID], set[UUID]]:
    """Create the charges of registered boletos. Returns the ids of the orders that ended, and of the charges created.

    An order that ended without a charge had its key used meanwhile; an order to undo the boleto at the bank was
    written. An order that did not end is no longer under this worker's lease, and its boleto is taken care of by the
    worker that has the lease or by the order to reconcile.
    """
    assert len(boletos) <= ISSUED_MAX
    ordered = sorted(boletos, key=lambda boleto: (boleto.request.payload.charge.account_id, boleto.request.key))
    items = [
        _encode(
            replace(
                _issue_item(boleto.request, boleto.qr_code, on_clock(boleto.at, boleto.ahead_s)),
                order_id=boleto.order_id,
                attempts=boleto.attempts,
                reconcile_id=boleto.reconcile_id,
                key=boleto.request.key,
                fingerprint=boleto.request.fingerprint,
                cob_order_id=boleto.cob_order_id,
                at=to_millisecond(boleto.at) if boleto.ahead_s else None,
            )
        )
        for boleto in ordered
    ]
    issued = await _issue(conn, items=items)
    charge_ids = set(issued.charge_ids or ())
    assert len(charge_ids) == (issued.projected or 0), "each charge has its read row"
    return set(issued.settled or ()), charge_ids


async def issue_found_boleto(
    conn: Connection, request: Registration, *, bank: str, qr_code: str | None, registered_at: datetime
) -> None:
    """Create the charge of a boleto that was paid although its creation had been given up. A repeated call changes
    nothing.

    `registered_at` is on the charge's own clock.
    """
    await _issue_found(conn, bank=bank, item=_encode(_issue_item(request, qr_code, registered_at)))


def _issue_item(request: Registration, qr_code: str | None, at: datetime) -> _IssueItem:
    doc = request.payload.charge
    assert doc.boleto is not None, "an order to register holds a boleto"
    at = to_millisecond(at)
    boleto = replace(doc.boleto, qr_code=qr_code)
    doc = replace(doc, boleto=boleto, created_at=iso(at))
    pix, cob = request.pix, None
    if pix is not None and pix.location_id is not None:
        assert doc.expires_at is not None, "a boleto has its last instant"
        boleto_s = int((datetime.fromisoformat(doc.expires_at) - at).total_seconds())
        if pix.lifetime_s is not None:
            doc = replace(doc, pix_expires_at=iso(at + timedelta(seconds=pix.lifetime_s)))
        cob = CobRequest(
            amount_cents=doc.amount_cents,
            expires_in_s=max(boleto_s if pix.lifetime_s is None else min(pix.lifetime_s, boleto_s), 1),
            created_at=at,
            location_id=pix.location_id,
            pix_key=pix.pix_key,
            description=doc.description,
            scenario=request.scenario,
        )
    return _IssueItem(
        payer_sealed=request.payer_sealed,
        payer_document_hash=request.payer_document_hash,
        actor=request.actor,
        request_id=request.request_id,
        registered_at=at,
        expires_at=doc.expires_at,
        payload=Payload(doc),
        location=None if pix is None else pix.location,
        cob=cob,
    )
