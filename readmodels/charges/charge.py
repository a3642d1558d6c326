"""A charge as it is read: its stored document (charge_view), and the projection the API answers (spec, Charge)."""

from base64 import b64decode
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

import sql
from domain.boleto.terms import PaymentTerms
from domain.charge import DUAL, Status
from domain.instants import iso
from domain.mode import Owner
from domain.money import reais
from domain.pix.qr import png_data_uri
from domain.refund import refundable_cents
from domain.sandbox_clock import on_clock
from readmodels.charges.agreed import AmountDueToday, DiscountAgreed, FineAgreed, InterestAgreed, charge_terms_fields
from runtime.seal import PAYMENT_PAYER, Seal
from sql import Connection


class Failure(Struct, frozen=True, gc=False):
    code: str
    message: str


class PaymentDoc(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A payment as stored: cents, ISO instants, the payer sealed (base64)."""

    payment_id: str
    charge_id: str
    external_id: str | None = None
    payment_method: str
    method: str
    amount_cents: int
    fee_cents: int = 0
    paid_at: str
    credited_at: str
    end_to_end_id: str | None = None
    txid: str | None = None
    nosso_numero: str | None = None
    integrador_code: str | None = None
    payer_sealed: str | None = None
    """None when the bank did not name the payer, and after the payer's data was erased."""
    interest_cents: int = 0
    fine_cents: int = 0
    discount_cents: int = 0
    late: bool = False
    anomaly: str | None = None
    refunded_cents: int = 0
    """Returned to the payer: the sum of refunds that succeeded."""
    refunding_cents: int = 0
    """On its way to the payer: the sum of pending refunds."""
    reversed_cents: int = 0
    """Taken back by the bank without our asking (reversals)."""

    @property
    def remaining_cents(self) -> int:
        return refundable_cents(
            self.amount_cents, self.refunded_cents + self.refunding_cents, reversed_cents=self.reversed_cents
        )


class BoletoDoc(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A boleto as stored: nosso numero with all twenty digits; linha digitavel and barcode as bare digits."""

    nosso_numero: str
    seu_numero: str
    linha_digitavel: str
    codigo_barras: str
    qr_code: str | None = None
    tipo_cobranca: str
    data_vencimento: str


class ChargeDoc(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A charge as stored in charge_view and, at its creation, in the journal: cents and ISO instants."""

    account_id: str
    charge_id: str
    test: bool
    public_id: str
    external_id: str | None = None
    payment_method: str
    status: str
    version: int
    amount_cents: int
    refunded_cents: int = 0
    description: str | None = None
    txid: str | None = None
    qr_code: str | None = None
    nosso_numero: str | None = None
    boleto: BoletoDoc | None = None
    terms: PaymentTerms | None = None
    """Fine, interest and discounts that the boleto is registered with."""
    redated: int = 0
    """How often the due date was changed."""
    integrador_code: str | None = None
    send_email: bool = False
    """Whether the payer gets e-mails about the charge (production only)."""
    schedule_id: str | None = None
    """The schedule that issued the charge; None for other charges."""
    metadata: dict[str, str] | None = None
    """The merchant's own keys and values."""
    created_at: str
    due_date: str | None = None
    effective_due_date: str | None = None
    expires_at: str | None = None
    pix_expires_at: str | None = None
    """The own expiry of a dual charge's PIX leg, if it has one; the leg never outlives the boleto."""
    paid_at: str | None = None
    cancelled_at: str | None = None
    cancel_reason: str | None = None
    payment: PaymentDoc | None = None
    failure: Failure | None = None

    @property
    def pix_ends_at(self) -> str | None:
        """When the QR Code ceases to be payable; in a dual charge that may be before the charge expires."""
        return min((at for at in (self.pix_expires_at, self.expires_at) if at is not None), default=None)

    def overdue(self, now: str) -> bool:
        """Whether the charge is pending past its expires_at; a reader then records the expiry first. `now` is as from
        iso(): ISO strings sort as instants do."""
        return self.status == Status.PENDING and self.expires_at is not None and self.expires_at <= now

    def at(self, now: str) -> "ChargeDoc":
        """The charge as it is at `now`: expired past its expires_at, even before the expiry is recorded."""
        return replace(self, status=str(Status.EXPIRED)) if self.overdue(now) else self


class Pix(Struct, frozen=True, gc=False):
    """The PIX part of a charge. `qr_code` is the copy-and-paste text; `qr_code_image` is the QR Code of exactly that
    text, a PNG as a data URI."""

    txid: str
    qr_code: str
    qr_code_image: str


class Boleto(Struct, frozen=True, gc=False, kw_only=True):
    """The boleto (spec, Boleto block). `qr_code` is the PIX copy-and-paste of a hybrid boleto."""

    nosso_numero: str
    seu_numero: str
    linha_digitavel: str
    codigo_barras: str
    qr_code: str | None
    tipo_cobranca: str
    data_vencimento: str


class Payer(Struct, frozen=True, gc=False):
    """The payer as reported by the bank; the document is masked."""

    name: str | None
    document: str | None


class PaymentBlock(Struct, frozen=True, gc=False, kw_only=True):
    """The receipt of a paid charge (contract section 7). Amounts are decimal reais, instants ISO 8601 UTC.
    `refunded_amount` counts refunds of this payment that succeeded; pending ones are counted in `refunded_total` of the
    refunds."""

    payment_id: str
    method: str
    amount: str
    fee: str
    net_amount: str
    paid_at: str
    credited_at: str
    end_to_end_id: str | None
    payer: Payer
    interest: str
    fine: str
    discount: str
    late: bool
    refunded_amount: str


class Leg(Struct, frozen=True, gc=False):
    """One leg of a dual charge. `leg` is pix or boleto; `status` is pending, paid, cancelled or expired."""

    leg: str
    status: str


class ChargeProjection(Struct, frozen=True, gc=False, kw_only=True):
    """A charge, as creation, lookup, lists and cancel answer it (spec, Charge (projection); additions of contract
    section 7). `refunded_amount` counts the refunds that succeeded, of all payments of the charge, including payments
    with an anomaly. `legs` is present only for dual charges (payment_method boleto_pix), and there `expires_at` is when
    the PIX leg expires. `fine`, `interest`, `discounts` and `metadata` are present when the charge was given them. With
    payment terms (fine, interest, discounts or days to pay late), `payable_until` is present as well and, while the
    charge is pending, `amount_due`."""

    charge_id: str
    account_id: str
    external_id: str | None
    public_id: str
    payment_url: str
    pdf_url: str | None
    payment_method: str
    status: str
    amount: str
    description: str | None
    pix: Pix | None
    boleto: Boleto | None
    legs: list[Leg] | UnsetType = UNSET
    payment: PaymentBlock | None
    created_at: str
    due_date: str | None
    effective_due_date: str | None
    expires_at: str | None
    paid_at: str | None
    cancelled_at: str | None
    refunded_amount: str
    failure: Failure | None
    fine: FineAgreed | UnsetType = UNSET
    interest: InterestAgreed | UnsetType = UNSET
    discounts: list[DiscountAgreed] | UnsetType = UNSET
    payable_until: str | UnsetType = UNSET
    amount_due: AmountDueToday | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    test: bool
    version: int
    warnings: tuple[str, ...] | UnsetType = UNSET


class _ChargeRow(Struct, frozen=True, gc=False):
    charge_id: UUID
    doc: bytes
    ahead_s: int


class CurrentCharge(Struct, frozen=True, gc=False):
    """A charge, and by how many seconds its account's clock is ahead of real time; both from one statement, so that
    they agree."""

    doc: ChargeDoc
    ahead_s: int

    def overdue(self, now: datetime) -> bool:
        """Whether the charge is pending past its expires_at at the real instant `now`."""
        return self.doc.overdue(iso(on_clock(now, self.ahead_s)))


find_charges = sql.many("read_charge.find", _ChargeRow)
read_doc = msgspec.json.Decoder(ChargeDoc).decode
_read_payer = msgspec.json.Decoder(Payer).decode


async def charges_by_id(conn: Connection, asked: Sequence[tuple[UUID, Owner]]) -> list[ChargeDoc | None]:
    """The charge of each (charge_id, owner), or None where the account has no such charge in that mode."""
    return [None if charge is None else charge.doc for charge in await current_charges(conn, asked)]


async def current_charges(conn: Connection, asked: Sequence[tuple[UUID, Owner]]) -> list[CurrentCharge | None]:
    """As charges_by_id, each with its account's clock, which decides whether the charge is overdue."""
    rows = await find_charges(
        conn,
        charge_ids=[each[0] for each in asked],
        account_ids=[owner.account_id for _, owner in asked],
        tests=[owner.test for _, owner in asked],
    )
    charges = {row.charge_id: CurrentCharge(read_doc(row.doc), row.ahead_s) for row in rows}
    # Two accounts may ask for one id in the same batch: the document says which account owns the charge.
    return [
        charge
        if (charge := charges.get(charge_id)) is not None
        and charge.doc.account_id == str(owner.account_id)
        and charge.doc.test == owner.test
        else None
        for charge_id, owner in asked
    ]


def present(doc: ChargeDoc, seal: Seal, *, app_url: str, now: datetime) -> ChargeProjection:
    """The API's answer for a stored charge, as it is at `now` on its account's clock; `app_url` begins its links.

    The QR image is rendered, never stored.
    """
    dual = doc.payment_method == DUAL
    page = f"{app_url}/pagar/{doc.public_id}"
    return ChargeProjection(
        charge_id=doc.charge_id,
        account_id=doc.account_id,
        external_id=doc.external_id,
        public_id=doc.public_id,
        payment_url=page,
        pdf_url=f"{page}/boleto.pdf" if doc.boleto is not None else None,
        payment_method=doc.payment_method,
        status=doc.status,
        amount=reais(doc.amount_cents),
        description=doc.description,
        pix=Pix(doc.txid, doc.qr_code, png_data_uri(doc.qr_code)) if doc.qr_code is not None and doc.txid else None,
        boleto=Boleto(**asdict(doc.boleto)) if doc.boleto is not None else None,
        legs=legs_of(doc, now=iso(now)) if dual else UNSET,
        payment=present_payment(doc.payment, seal) if doc.payment is not None else None,
        created_at=doc.created_at,
        due_date=doc.due_date,
        effective_due_date=doc.effective_due_date,
        # For a boleto the spec shows only the due date; the instant follows from the effective due date.
        expires_at=doc.expires_at if doc.boleto is None else doc.pix_ends_at if dual else None,
        paid_at=doc.paid_at,
        cancelled_at=doc.cancelled_at,
        refunded_amount=reais(doc.refunded_cents),
        failure=doc.failure,
        **charge_terms_fields(
            doc.terms, amount_cents=doc.amount_cents, due_date=doc.due_date, status=doc.status, now=now
        ),
        # jsonb does not keep the order of keys; sorted, the creation's answer and later ones are alike to the byte.
        metadata=UNSET if doc.metadata is None else dict(sorted(doc.metadata.items())),
        test=doc.test,
        version=doc.version,
    )


def legs_of(doc: ChargeDoc, *, now: str) -> list[Leg]:
    """The status of each leg of a dual charge at `now` (as from iso(): ISO strings sort as instants do).

    Both legs have the charge's status, with three exceptions. Of a paid charge (refunded since or not) one leg is paid
    and the other cancelled, because the first payment closes the other leg. The legs of a failed charge are cancelled.
    A PIX leg that expired before the charge ended is expired, whatever happened later.
    """
    status = doc.status
    paid_by = None
    if status in (Status.PAID, Status.REFUNDED):
        assert doc.payment is not None, "a charge is paid by a payment"
        paid_by = "pix" if doc.payment.nosso_numero is None else "boleto"
        status = Status.CANCELLED
    elif status == Status.FAILED:
        status = Status.CANCELLED
    # The bank may report a payment after the leg's expiry although it was made in time: the instant of payment counts.
    ended_at = doc.paid_at or doc.cancelled_at or now
    lapsed = doc.status != Status.FAILED and doc.pix_ends_at is not None and doc.pix_ends_at <= ended_at
    return [
        Leg("pix", str(Status.PAID if paid_by == "pix" else Status.EXPIRED if lapsed else status)),
        Leg("boleto", str(Status.PAID if paid_by == "boleto" else status)),
    ]


def present_payment(doc: PaymentDoc, seal: Seal) -> PaymentBlock:
    return PaymentBlock(
        payment_id=doc.payment_id,
        method=doc.method,
        amount=reais(doc.amount_cents),
        fee=reais(doc.fee_cents),
        net_amount=reais(doc.amount_cents - doc.fee_cents),
        paid_at=doc.paid_at,
        credited_at=doc.credited_at,
        end_to_end_id=doc.end_to_end_id,
        payer=open_payer(doc, seal),
        interest=reais(doc.interest_cents),
        fine=reais(doc.fine_cents),
        discount=reais(doc.discount_cents),
        late=doc.late,
        refunded_amount=reais(doc.refunded_cents),
    )


def open_payer(doc: PaymentDoc, seal: Seal) -> Payer:
    if doc.payer_sealed is None:
        return Payer(None, None)
    payer_json = seal.opened(b64decode(doc.payer_sealed), PAYMENT_PAYER, doc.payment_id)
    return Payer(None, None) if payer_json is None else _read_payer(payer_json)
