"""Boletos as the product stores them after creation and changes: the charge, its journal, the read tables.

They are written without a bank, so that tests can look at a boleto in any state and at any time.
"""

import secrets
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from banks.banco_do_brasil.agreement import ConvenioAgreement
from banks.banco_do_brasil.nosso_numero import CONTROL_MAX
from banks.boletos import BoletoPayer
from commands.charges.create_boleto import BoletoRequest, compose_boleto
from commands.charges.issuer import Issuer
from commands.journal import post_rows
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import PaymentTerms, expires_at
from domain.instants import iso
from readmodels.charges.charge import ChargeDoc
from readmodels.projector import Projection
from runtime.ids import new_id
from runtime.seal import CHARGE_PAYER, Seal
from sql import Connection

AGREEMENT = ConvenioAgreement(convenio="3128557", carteira="17", variacao=35, agencia=452, conta=123873)
PAYER = BoletoPayer(
    name="José da Conceição Araújo",
    document="12345678909",
    street="Av. São João",
    number="45",
    city="São Paulo",
    state="SP",
    zip_code="01035000",
)
BR_CODE = (
    "00020101021226850014br.gov.bcb.pix2563pix.example.com/qr/v2/cobv/8b3da2f39a4140d1a91abd93113bd441"
    "5204000053039865802BR5919PADARIA AURORA LTDA6009SAO PAULO62070503***63041D3D"
)


async def issue(
    conn: Connection,
    seal: Seal,
    account_id: UUID,
    *,
    test: bool,
    due: date,
    now: datetime,
    hybrid: bool = False,
    amount_cents: int = 123456,
    payer: BoletoPayer = PAYER,
    terms: PaymentTerms | None = None,
    **more: Any,
) -> ChargeDoc:
    """Insert a pending boleto; `more` are fields of its document."""
    charge_id = new_id()
    request = BoletoRequest(
        charge_id=charge_id,
        issuer=Issuer(account_id=account_id, test=test, name="", city="", pix_key="", actor="test"),
        key="", fingerprint=b"", request_id="", kind="boleto_hibrido" if hybrid else "boleto",
        amount_cents=amount_cents, due_on=due, terms=terms, external_id=None, description=None,
        payer_sealed=seal.seal(msgspec.json.encode(payer), CHARGE_PAYER, charge_id),
        payer_document_hash=seal.blind(payer.document),
    )  # fmt: skip
    control = 1 + secrets.randbelow(CONTROL_MAX)
    order = compose_boleto(request, control, agreement=AGREEMENT, now=now, deadline=now, reply_to=None)
    doc = order.request.payload.charge
    assert doc.boleto is not None
    boleto = replace(doc.boleto, seu_numero="PED-000123", qr_code=BR_CODE if hybrid else None)
    doc = replace(doc, boleto=boleto, **more)
    await conn.execute(
        "INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents,"
        " created_at, expires_at, payer_sealed) VALUES ($1, $2, $3, '001', $4, 'pending', 1, $5, $6, $7, $8)",
        account_id, UUID(doc.charge_id), test, doc.payment_method, amount_cents, now, expires_at(terms, due),
        request.payer_sealed,
    )  # fmt: skip
    await _record(conn, doc, "charge.created", now, doc, Projection.CREATED)
    return doc


async def record_boleto_change(conn: Connection, doc: ChargeDoc, kind: str, now: datetime, **fields: Any) -> ChargeDoc:
    """Change these fields of the boleto's document, and record the change as an event of this kind."""
    doc = replace(doc, version=doc.version + 1, **fields)
    await conn.execute(
        "UPDATE charge SET status = $3, version = $4, expires_at = $5 WHERE charge_id = $1 AND account_id = $2",
        UUID(doc.charge_id), UUID(doc.account_id), doc.status, doc.version,
        datetime.fromisoformat(str(doc.expires_at)).astimezone(UTC),
    )  # fmt: skip
    changed = {"status": doc.status, "version": doc.version, **fields}
    await _record(conn, doc, kind, now, changed, Projection.CHANGED)
    return doc


async def redate(conn: Connection, doc: ChargeDoc, due: date, now: datetime) -> ChargeDoc:
    """Change the due date, and with it line and barcode."""
    old = doc.boleto
    assert old is not None
    barcode, line = AGREEMENT.codes(old.nosso_numero, due_on=due, amount_cents=doc.amount_cents)
    fields = {
        "due_date": str(due), "effective_due_date": str(effective_due_date(due)),
        "expires_at": iso(expires_at(doc.terms, due)),
        "boleto": replace(old, linha_digitavel=line, codigo_barras=barcode, data_vencimento=str(due)),
        "redated": doc.redated + 1,
    }  # fmt: skip
    return await record_boleto_change(conn, doc, "charge.due_date_changed", now, **fields)


async def _record(conn: Connection, doc: ChargeDoc, kind: str, now: datetime, charge: Any, which: Projection) -> None:
    line = {
        "account_id": doc.account_id, "test": doc.test, "charge_id": doc.charge_id, "version": doc.version,
        "kind": kind, "at": iso(now), "actor": "test", "payload": {"charge": charge},
    }  # fmt: skip
    await post_rows(conn, owners=[], counts=[], items=[msgspec.json.encode(line)], which=[which], mailed=[], now=now)
