"""API Pix v2, charges with a due date (cobv): the payer's bank collects the amount due on the day of payment.

The standard counts days as for boletos: a due date that is no banking day moves to the next one, and validity, fine,
interest and discounts move with it. Fine and interest have no dates of their own, so they follow a new due date.
"""

from collections.abc import Callable
from datetime import MAXYEAR, date, datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from banks.banco_do_brasil.charges import (
    ACTIVE,
    ChargesOfKind,
    WireCharge,
    create_location,
    said_of,
)
from banks.banco_do_brasil.transport import Transport, unknown
from banks.protocol import CobState, Cobv, Done, Location, NotFound, Rejected, Unknown
from domain.boleto.terms import PAYABLE_DAYS_MAX, PaymentTerms, expires_at
from domain.money import reais

COBV: Final = ("cobv.read", "cobv.write")
_REFUSED: Final = "CobVOperacaoInvalida"
_NAMELESS: Final = "PAGADOR"
"""Stands for a name in another script, of which nothing remains in the characters that the bank accepts."""
_CALENDARS: Final = timedelta(days=3)
"""Added to the last payable day, which may move for a holiday that our calendar lacks (a state's, or a new one)."""
# Kinds (`modalidade`) of a fine, of interest by calendar days, and of a discount until fixed days.
AMOUNT: Final = 1
PERCENT: Final = 2
PERCENT_PER_MONTH: Final = 3


class _Calendar(Struct, frozen=True, rename={"due": "dataDeVencimento", "days_after": "validadeAposVencimento"}):
    """The dates of a cobv. The bank sometimes writes numbers as text."""

    due: str | None = None
    days_after: int | str | None = None


class _Cobv(WireCharge, frozen=True):
    calendario: _Calendar | None = None


class ApiCobv:
    """Charges with a due date, over HTTP at `api_url` (".../pix/v2")."""

    def __init__(self, transport: Transport, *, api_url: str, now: Callable[[], datetime]) -> None:
        self._transport = transport
        self._api_url = api_url
        self._now = now
        self._charges = ChargesOfKind(transport, url=f"{api_url}/cobv", scopes=COBV, shape=_Cobv, refused=_REFUSED)

    async def create_cobv_location(self) -> Done[Location] | Rejected | Unknown:
        made = await create_location(self._transport, self._api_url, "cobv")
        return Done(made) if isinstance(made, Location) else made

    async def put_cobv(self, cobv: Cobv) -> Done[None] | Rejected | Unknown:
        put = await self._charges.put(cobv, _body(cobv))
        return Done(None) if isinstance(put, _Cobv) else put

    async def get_cobv(self, txid: str) -> CobState | NotFound | Unknown:
        return await self._charges.state(txid)

    async def remove_cobv(self, txid: str) -> Done[None] | NotFound | Rejected | Unknown:
        return await self._charges.remove(txid, self._is_over)

    async def revise_cobv(
        self, txid: str, due_on: date, terms: PaymentTerms
    ) -> Done[None] | NotFound | Rejected | Unknown:
        found = await self._charges.find(txid)
        if not isinstance(found, _Cobv):
            return found
        calendar = _calendar(due_on, terms)
        if (told := _revised(found, calendar)) is not None:
            return told
        heard = await self._charges.ask("PATCH", txid, {"calendario": calendar})
        # The answer may be lost, or a payer may have paid first: the charge's present state at the bank decides.
        found = await self._charges.find(txid)
        if not isinstance(found, _Cobv):
            return found
        return _revised(found, calendar) or unknown(heard)

    def _is_over(self, cobv: _Cobv) -> bool:
        calendar = cobv.calendario or _Calendar()
        try:
            due, days_after = date.fromisoformat(calendar.due or ""), int(calendar.days_after or 0)
        except ValueError:
            return False
        if not 0 <= days_after <= PAYABLE_DAYS_MAX or due.year == MAXYEAR:
            return False
        return self._now() > expires_at(PaymentTerms(payable_days=days_after), due) + _CALENDARS


def terms_value(terms: PaymentTerms) -> dict[str, Any]:
    """Return the members multa, juros and desconto of `valor`. Amounts and percentages are both decimal text."""
    value: dict[str, Any] = {}
    if (fine := terms.fine) is not None:
        value["multa"] = _kind(fine.amount_cents, fine.percent_bps, PERCENT)
    if (interest := terms.interest) is not None:
        value["juros"] = _kind(interest.day_cents, interest.month_bps, PERCENT_PER_MONTH)
    if terms.discounts:
        value["desconto"] = {
            "modalidade": AMOUNT if terms.discounts[0].amount_cents else PERCENT,
            "descontoDataFixa": [
                {"data": each.until.isoformat(), "valorPerc": reais(each.amount_cents or each.percent_bps)}
                for each in terms.discounts
            ],
        }
    return value


def _kind(cents: int, bps: int, percent: int) -> dict[str, Any]:
    return {"modalidade": AMOUNT if cents else percent, "valorPerc": reais(cents or bps)}


def _body(cobv: Cobv) -> dict[str, Any]:
    said = said_of(cobv.description, cobv.payer_name, cobv.payer_document)
    if "devedor" not in said:
        said |= said_of(None, _NAMELESS, cobv.payer_document)
    return said | {
        "calendario": _calendar(cobv.due_on, cobv.terms),
        "valor": {"original": reais(cobv.amount_cents), **terms_value(cobv.terms)},
        "chave": cobv.pix_key,
        "loc": {"id": cobv.location_id},
    }


def _calendar(due_on: date, terms: PaymentTerms) -> dict[str, Any]:
    return {"dataDeVencimento": due_on.isoformat(), "validadeAposVencimento": terms.payable_days}


def _revised(cobv: _Cobv, calendar: dict[str, Any]) -> Done[None] | Rejected | None:
    """Return Done if the charge has these dates already, Rejected if it accepts no change any more, else None."""
    if cobv.status != ACTIVE:
        return Rejected(_REFUSED, f"The charge is {cobv.status}.")
    if cobv.calendario is None:
        return None
    has = (cobv.calendario.due, str(cobv.calendario.days_after))
    return Done(None) if has == (calendar["dataDeVencimento"], str(calendar["validadeAposVencimento"])) else None
