"""Litestar routes written the ordinary way, which show the cost of a request that does no work.

`/bench/plain` takes the body of a PIX charge as a struct and answers with a fixed charge as a struct, both by the
framework, without token, limit, key, database or QR image. `/bench/empty` takes nothing and answers `{}`.
"""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from msgspec.structs import replace

from api.routes.pix import CreatePix
from domain.instants import iso
from domain.pix.br_code import dynamic_br_code
from domain.pix.qr import png_data_uri
from readmodels.charges.charge import ChargeProjection, Pix
from runtime.ids import new_id, page_token


@get("/bench/empty", include_in_schema=False)
async def empty_get() -> dict[str, str]:
    return {}


@post("/bench/empty", include_in_schema=False)
async def empty_post() -> dict[str, str]:
    return {}


@get("/bench/plain/{charge_id:uuid}", include_in_schema=False)
async def plain_get(charge_id: UUID) -> ChargeProjection:
    return replace(_CHARGE, charge_id=str(charge_id))


@post("/bench/plain", include_in_schema=False)
async def plain_post(data: CreatePix) -> ChargeProjection:
    return replace(_CHARGE, external_id=data.external_id, amount=data.amount, description=data.description)


def _charge() -> ChargeProjection:
    charge_id, now = new_id(), iso(datetime.now(UTC))
    location = f"pix.example.com/qr/v2/{charge_id.hex}"
    qr_code = dynamic_br_code(location=location, amount_cents=14_990, name="Padaria Aurora", city="Recife")
    return ChargeProjection(
        charge_id=str(charge_id),
        account_id=str(new_id()),
        external_id="order-000000000001",
        public_id=page_token(),
        payment_url="https://quita.example.com/pagar/m11k7bUFs4RQ-I9oiuV1ew",
        pdf_url=None,
        payment_method="pix",
        status="pending",
        amount="149.90",
        description="Order of Padaria Aurora",
        pix=Pix(charge_id.hex, qr_code, png_data_uri(qr_code)),
        boleto=None,
        payment=None,
        created_at=now,
        due_date=None,
        effective_due_date=None,
        expires_at=now,
        paid_at=None,
        cancelled_at=None,
        refunded_amount="0.00",
        failure=None,
        test=True,
        version=1,
    )


_CHARGE: Final = _charge()
ROUTES: Final[tuple[HTTPRouteHandler, ...]] = (empty_get, empty_post, plain_get, plain_post)
