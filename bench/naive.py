"""Creating a PIX charge in the most obvious way: a transaction per request, a statement per row, and the QR image by
segno with its defaults. Validation and stored rows are those of the real route."""

from datetime import timedelta

import msgspec
import segno

from api.answers import Answer, encode
from api.body.reading import convert_body
from api.context import ApiContext
from api.route import Call
from api.routes.pix import CreatePix
from domain.documents import well_formed
from domain.errors import Code, Refused
from domain.identifiers import parse_id
from domain.instants import iso
from domain.money import PIX_CENTS_MAX, parse_amount
from domain.pix.br_code import dynamic_br_code
from readmodels.charges.charge import ChargeDoc, Pix, present
from runtime.ids import new_id, page_token
from runtime.postgres import transaction
from runtime.seal import CHARGE_PAYER

_CLAIM = """
INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)
VALUES ($1, $2, $3, $4, 'charge', $5, $6) ON CONFLICT DO NOTHING RETURNING resource_id
"""
_CHARGE = """
INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, external_id,
                    created_at, expires_at, location, payer_sealed)
VALUES ($1, $2, $3, '001', 'pix', 'pending', 1, $4, $5, $6, $7, $8, $9)
"""
_JOURNAL = """
INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, request_id, payload)
VALUES ($1, $2, $3, 1, 'charge.created', $4, $5, $6, $7) RETURNING journal_id
"""
_READ = """
INSERT INTO read_charge (account_id, charge_id, test, created_at, status, payment_method, amount_cents, public_id,
                         external_id, payer_document_hash, version, journal_id)
VALUES ($1, $2, $3, $4, 'pending', 'pix', $5, $6, $7, $8, 1, $9)
"""
_COB = """
INSERT INTO simulated_cob (world, txid, status, amount_cents, pix_key, description, created_at, expires_in_s,
                           location_id)
VALUES ('sandbox', $1, 'ATIVA', $2, $3, $4, $5, $6, $7)
"""


async def create_naively(context: ApiContext, call: Call) -> Answer:
    caller, now = call.caller, call.now
    body = convert_body(call.body, CreatePix)
    amount_cents = parse_amount(body.amount, cents_max=PIX_CENTS_MAX)
    lifetime_s = body.expires_in or 86_400
    external_id, description = body.external_id, body.description
    if parse_id(body.account_id) != caller.account_id:
        raise Refused(Code.CHARGE_NOT_FOUND)
    payer, document = body.payer, body.payer.document if body.payer else None
    if document is not None and not well_formed(document, letters=False):
        raise Refused(Code.VALIDATION_ERROR)
    location = await context.reserve.take(caller.mode, caller.account_id)
    charge_id, expires_at = new_id(), now + timedelta(seconds=lifetime_s)
    qr_code = dynamic_br_code(location=location.location, amount_cents=amount_cents, name=caller.name, city=caller.city)
    doc = ChargeDoc(
        account_id=str(caller.account_id),
        charge_id=str(charge_id),
        test=caller.test,
        public_id=page_token(),
        external_id=external_id,
        payment_method="pix",
        status="pending",
        version=1,
        amount_cents=amount_cents,
        description=description,
        txid=charge_id.hex,
        qr_code=qr_code,
        created_at=iso(now),
        expires_at=iso(expires_at),
    )
    async with transaction(context.pool) as conn:
        claimed = await conn.fetchrow(
            _CLAIM, caller.account_id, caller.test, call.key, call.fingerprint, charge_id, now
        )
        if claimed is None:
            raise Refused(Code.IDEMPOTENCY_KEY_REUSED)
        await conn.execute(
            _CHARGE, caller.account_id, charge_id, caller.test, amount_cents, external_id, now, expires_at,
            location.location,
            context.seal.seal(msgspec.json.encode(payer), CHARGE_PAYER, charge_id) if payer else None,
        )  # fmt: skip
        journal_id = await conn.fetchval(
            _JOURNAL, caller.account_id, caller.test, charge_id, now, caller.client_id, call.request_id,
            b'{"charge":%b}' % msgspec.json.encode(doc),
        )  # fmt: skip
        await conn.execute(
            _READ, caller.account_id, charge_id, caller.test, now, amount_cents, doc.public_id, external_id,
            context.seal.blind(document) if document else None, journal_id,
        )  # fmt: skip
        await conn.execute(
            _COB, charge_id.hex, amount_cents, caller.pix_key, description, now, lifetime_s, location.location_id
        )
    image = segno.make_qr(qr_code).png_data_uri(scale=4)
    projection = present(
        msgspec.structs.replace(doc, qr_code=None), context.seal, app_url=context.settings.app_url, now=now
    )
    return Answer(encode(msgspec.structs.replace(projection, pix=Pix(charge_id.hex, qr_code, image))), 201)
