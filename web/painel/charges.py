"""Charges: the list with the API's filters, and one charge with its life and what can be done to it."""

from secrets import token_hex
from typing import Any
from uuid import UUID

from litestar.exceptions import NotFoundException
from litestar.response import Response
from msgspec.structs import replace

from commands.cancel import cancellation
from commands.change import Wish, change_charges
from commands.expire import expire_account
from commands.pay import simulated_payment
from commands.slip_orders import PAY, WRITE_OFF, Pay, WriteOff
from domain.br_code import end_to_end_id
from domain.charge import CancelReason, Status
from domain.documents import masked, well_formed
from domain.errors import Refused
from domain.instants import parse_day
from readmodels.charge import ChargeDoc, charges_by_id, open_payer
from readmodels.charge_list import METHODS as ALL_METHODS
from readmodels.charge_list import STATUSES, ChargeFilters, ChargePosition, charge_page
from readmodels.dashboard_charge import Payer, life_of, payer_of, people_of
from readmodels.page import Order
from readmodels.webhook_delivery_list import DeliveryFilters, delivery_page
from runtime.postgres import session
from web.painel.lists import PAGE, Asked, walk
from web.painel.shown import ChargeRow, charge_row, instant
from web.painel.slip_change import change_slip
from web.painel.visit import Visit
from web.painel.words import CANCEL_REASONS, DELIVERY_STATES, KINDS, METHODS, OUTCOMES, STATUS

_DELIVERIES_MOST = 20
# The ISPB of the sandbox's bank: no institution has it.
_SANDBOX_ISPB = "99999999"
_FILTERS = (
    "status", "payment_method", "external_id", "payer_document", "nosso_numero", "txid", "integrador_code",
    "created_from", "created_to", "due_from", "due_to", "order",
)  # fmt: skip


async def show_list(visit: Visit) -> Response[Any]:
    asked = Asked(visit.request, _FILTERS)
    filters = _filters(asked, visit)
    values: dict[str, object] = {"asked": asked, "statuses": STATUS, "methods": METHODS, "walked": None}
    if asked.faults:
        return visit.show("charges.html", values, status=400)
    account_id, test = visit.owner
    await expire_account(visit.pool, account_id, test, now=visit.now)

    async def fetch(order: Order, after: ChargePosition | None) -> tuple[list[ChargeRow], ChargePosition | None]:
        async with session(visit.pool) as conn:
            docs, last = await charge_page(conn, account_id, test, replace(filters, order=order), after, PAGE)
        return [charge_row(doc, visit) for doc in docs], last

    values["walked"] = await walk(
        visit, asked, "charges", filters, ChargePosition, fetch, _position, order=filters.order
    )
    return visit.show("charges.html", values)


async def show(visit: Visit) -> Response[Any]:
    charge_id = visit.id("charge_id")
    account_id, test = visit.owner
    doc = await _charge(visit, charge_id)
    async with session(visit.pool) as conn:
        payer = await payer_of(conn, charge_id, account_id, test, seal=visit.seal)
        life = await life_of(conn, charge_id, account_id, test)
        people = await people_of(conn, account_id, life)
        deliveries, _ = await delivery_page(
            conn, account_id, test, DeliveryFilters(charge_id=charge_id), None, _DELIVERIES_MOST
        )
    values = {
        "doc": doc,
        "row": charge_row(doc, visit),
        "pending": doc.status == Status.PENDING,
        "payer": None if payer is None else _shown(payer),
        "paid_by": open_payer(doc.payment, visit.seal) if doc.payment is not None else None,
        "payment": doc.payment,
        "life": life,
        "people": people,
        "deliveries": deliveries,
        "kinds": KINDS,
        "methods": METHODS,
        "states": DELIVERY_STATES,
        "outcomes": OUTCOMES,
        "reasons": CANCEL_REASONS,
        "instant": instant,
        "parse_day": parse_day,
        "base": visit.here(f"/cobrancas/{charge_id}"),
        "payer_link": f"{visit.settings.app_url}/pagar/{doc.public_id}",
    }
    return visit.show("charge.html", values)


async def cancel(visit: Visit) -> Response[Any]:
    """As the API does: a PIX charge at once, a slip when the bank has written it off."""
    charge_id = visit.id("charge_id")
    doc = await _charge(visit, charge_id)
    given = visit.field("reason")
    reason = CancelReason(given) if given in CANCEL_REASONS else CancelReason.CANCELLED
    if doc.boleto is None:
        wish = cancellation(charge_id, visit.owner, reason=reason, actor=visit.actor, request_id=visit.request_id)
        await _grant(visit, "charge.cancelled", wish, reason=str(reason))
    else:
        request = WriteOff(reason=reason, actor=visit.actor, request_id=visit.request_id)
        await change_slip(visit, "slip.write_off_ordered", WRITE_OFF, charge_id, request, reason=str(reason))
    return visit.go(visit.here(f"/cobrancas/{charge_id}"), done="cancelada")


async def pay_in_test(visit: Visit) -> Response[Any]:
    """Be the payer of a test charge, as simulate-payment is."""
    assert visit.test, "the table has this page in the test section only"
    charge_id = visit.id("charge_id")
    doc = await _charge(visit, charge_id)
    if doc.boleto is None:
        wish = simulated_payment(
            charge_id,
            visit.owner,
            end_to_end_id=end_to_end_id(_SANDBOX_ISPB, visit.now, token_hex(6)[:11]),
            seal=visit.seal,
            actor=visit.actor,
            request_id=visit.request_id,
        )
        await _grant(visit, "charge.paid_in_test", wish)
    else:
        request = Pay(actor=visit.actor, request_id=visit.request_id)
        await change_slip(visit, "slip.test_payment_ordered", PAY, charge_id, request)
    return visit.go(visit.here(f"/cobrancas/{charge_id}"), done="simulado")


async def _grant(visit: Visit, action: str, wish: Wish, **facts: object) -> None:
    async with visit.change(action, subject=str(wish.charge_id), **facts) as conn:
        (outcome,) = await change_charges(conn, [wish], now=visit.now)
        if isinstance(outcome, Refused):
            raise outcome


async def _charge(visit: Visit, charge_id: UUID) -> ChargeDoc:
    """The charge as it is this moment; the one 404 for everything that is not this account's in this mode."""
    account_id, test = visit.owner
    await expire_account(visit.pool, account_id, test, now=visit.now)
    async with session(visit.pool) as conn:
        (doc,) = await charges_by_id(conn, [(charge_id, account_id, test)])
    if doc is None:
        raise NotFoundException
    return doc


def _filters(asked: Asked, visit: Visit) -> ChargeFilters:
    created_from, created_to = asked.days("created_from", "created_to")
    due_from, due_to = asked.dates("due_from", "due_to")
    document = asked.digits("payer_document")
    return ChargeFilters(
        statuses=asked.choices("status", STATUSES),
        methods=asked.choices("payment_method", ALL_METHODS),
        external_id=asked.word("external_id"),
        payer_document_hash=None if document is None else visit.seal.blind(document),
        nosso_numero=asked.digits("nosso_numero"),
        txid=asked.word("txid"),
        integrador_code=asked.word("integrador_code"),
        created_from=created_from,
        created_to=created_to,
        due_from=due_from,
        due_to=due_to,
        order=Order(asked.choice("order", ("asc", "desc")) or "desc"),
    )


def _position(row: ChargeRow) -> ChargePosition:
    return ChargePosition(row.created_at, UUID(row.charge_id))


def _shown(payer: Payer) -> dict[str, str]:
    """Who is to pay, for the eye: name and contact as the merchant gave them, the document masked."""
    document = payer.document or ""
    found = {
        "Nome": payer.name or "",
        "Documento": masked(document) if well_formed(document, letters=True) else "",
        "E-mail": payer.email or "",
        "Telefone": payer.phone or "",
    }
    return {label: text for label, text in found.items() if text}
