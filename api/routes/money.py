"""Payments, balance and ledger."""

from functools import partial

from api.answers import Answer, encode
from api.context import ApiContext
from api.paging import page_of, paged
from api.query import CURSOR, LIMIT, ORDER, Query, day, identifier, one_of, path_id, word
from api.route import Call, Route
from domain.charge import Anomaly
from domain.errors import Code, Refused
from domain.mode import Owner
from readmodels.money.ledger import ENTRY_TYPES, Balance, LedgerFilters, LedgerItem, balance, ledger_page
from readmodels.money.payment_list import PaymentFilters, PaymentItem, payment_page
from readmodels.page import SequencePosition, TimePosition
from runtime.postgres import session

PAYMENT_METHODS = ("pix", "boleto")
ANOMALIES = tuple(each.value for each in Anomaly)


PaymentPage = page_of(PaymentItem, "PaymentPage")
LedgerPage = page_of(LedgerItem, "LedgerPage")


async def list_payments(context: ApiContext, call: Call) -> Answer:
    query = Query(call.scope["query_string"], PAYMENTS)
    paid_from, paid_to = query.days("paid_from", "paid_to")
    filters = PaymentFilters(
        paid_from=paid_from,
        paid_to=paid_to,
        charge_id=query.uuid("charge_id"),
        external_id=query.text("external_id"),
        method=query.choice("method", PAYMENT_METHODS),
        anomaly=query.choice("anomaly", ANOMALIES),
        order=query.order(),
    )
    return await paged(
        context, call, query, "payments", filters, TimePosition, partial(payment_page, seal=context.seal)
    )


async def read_balance(context: ApiContext, call: Call) -> Answer:
    async with session(context.pool) as conn:
        return Answer(encode(await balance(conn, _own_account(call))))


async def list_ledger(context: ApiContext, call: Call) -> Answer:
    query = Query(call.scope["query_string"], LEDGER)
    created_from, created_to = query.days("created_from", "created_to")
    filters = LedgerFilters(
        type=query.choice("type", ENTRY_TYPES), created_from=created_from, created_to=created_to, order=query.order()
    )
    _own_account(call)
    return await paged(context, call, query, "ledger", filters, SequencePosition, ledger_page)


def _own_account(call: Call) -> Owner:
    account_id = path_id(call.path("account_id"))
    if account_id is None or account_id != call.caller.account_id:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
    return call.caller.owner


PAYMENTS = (
    day("paid_from", "Paid on or after this day"),
    day("paid_to", "Paid on or before this day"),
    identifier("charge_id"),
    word("external_id"),
    one_of("method", PAYMENT_METHODS, repeatable=False),
    one_of("anomaly", ANOMALIES, repeatable=False),
    ORDER,
    LIMIT,
    CURSOR,
)
LEDGER = (
    one_of("type", ENTRY_TYPES, repeatable=False),
    day("created_from", "Written on or after this day"),
    day("created_to", "Written on or before this day"),
    ORDER,
    LIMIT,
    CURSOR,
)
_LIST_ERRORS = (Code.VALIDATION_ERROR, Code.DATE_RANGE_INVALID, Code.LIMIT_INVALID, Code.CURSOR_INVALID)

ROUTES = (
    Route(
        method="GET",
        path="/v1/payments",
        name="listPayments",
        summary="List payments received",
        tag="Money",
        handle=list_payments,
        scopes=("payments:read",),
        query=PAYMENTS,
        answers={200: PaymentPage},
        errors=_LIST_ERRORS,
    ),
    Route(
        method="GET",
        path="/v1/accounts/{account_id:str}/balance",
        name="getBalance",
        summary="Read the balance",
        tag="Money",
        handle=read_balance,
        scopes=("payments:read",),
        answers={200: Balance},
        errors=(Code.WALLET_ACCOUNT_NOT_FOUND,),
    ),
    Route(
        method="GET",
        path="/v1/accounts/{account_id:str}/ledger",
        name="listLedger",
        summary="List the ledger's lines",
        tag="Money",
        handle=list_ledger,
        scopes=("payments:read",),
        query=LEDGER,
        answers={200: LedgerPage},
        errors=(Code.WALLET_ACCOUNT_NOT_FOUND, *_LIST_ERRORS),
    ),
)
