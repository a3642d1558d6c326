"""A merchant's fees, for the staff: agree terms of its own, or return to the platform's; each with a reason."""

from typing import Any, Final

from litestar.response import Response

from commands.money.fees import SET, fee_facts, set_fees
from domain.brazilian import amount, brl
from domain.errors import Code, Refused
from domain.merchants.fees import FEE_CENTS_MAX, PIX_BPS_MAX, FeeTerms
from web.painel.fields import Filled
from web.painel.page_request import PageRequest
from web.painel.settings.company import show_faults
from web.plataforma.labels import NO_REASON
from web.plataforma.merchants import merchant_view

_CENTS_FAULT: Final = f"Informe um valor como 0,50, até {brl(FEE_CENTS_MAX)}; em branco, nenhum."
_FAULTS: Final = {
    "pix_bps": f"Informe um percentual como 0,99, até {amount(PIX_BPS_MAX)}; em branco, nenhum.",
    **dict.fromkeys(("pix_cents", "pix_cents_min", "boleto_cents", "withdrawal_cents"), _CENTS_FAULT),
    "pix_cents_max": f"O máximo não fica abaixo do mínimo e vai até {brl(FEE_CENTS_MAX)}; em branco, não há.",
    "reason": NO_REASON,
}


async def agree(request: PageRequest) -> Response[Any]:
    """Sets all terms of the account: an empty field means that the fee is not charged."""
    filled = Filled(request)
    terms = FeeTerms(
        pix_bps=0 if filled.is_zero("pix_bps") else filled.percent("pix_bps", PIX_BPS_MAX) or 0,
        pix_cents=_fee_cents(filled, "pix_cents"),
        pix_cents_min=_fee_cents(filled, "pix_cents_min"),
        pix_cents_max=filled.cents("pix_cents_max", FEE_CENTS_MAX, required=False),
        boleto_cents=_fee_cents(filled, "boleto_cents"),
        withdrawal_cents=_fee_cents(filled, "withdrawal_cents"),
    )
    for field in filled.faults:
        filled.faults[field] = _FAULTS[field]
    return await _change_fees(request, filled, terms)


async def take_default(request: PageRequest) -> Response[Any]:
    return await _change_fees(request, Filled(request), None)


async def _change_fees(request: PageRequest, filled: Filled, terms: FeeTerms | None) -> Response[Any]:
    account_id, reason = request.id("account_id"), filled.value("reason")
    if filled.faults:
        return await merchant_view(request, fees=filled)
    try:
        async with request.change(SET, subject=str(account_id), **fee_facts(terms, reason)) as conn:
            await set_fees(conn, account_id, terms, reason, request.origin, now=request.now, seal=request.seal)
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise
        show_faults(filled, refused, _FAULTS)
        return await merchant_view(request, fees=filled)
    return request.go(f"/plataforma/lojas/{account_id}", done="tarifas")


def _fee_cents(filled: Filled, name: str) -> int:
    return filled.cents(name, FEE_CENTS_MAX, required=False, zero=True) or 0
