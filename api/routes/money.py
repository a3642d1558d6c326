"""Payments, balance and ledger; and GET /v1/me, which shows the account, mode and scopes of a token."""

from functools import partial

from msgspec import Struct

from api.answers import Answer, encode
from api.context import ApiContext
from api.paging import PagedList, page_of
from api.route import Call, Route, routes_of
from domain.errors import Code, Refused
from domain.identifiers import parse_id
from domain.mode import Owner
from readmodels.money.ledger import Balance, LedgerFilters, LedgerItem, balance, ledger_page
from readmodels.money.payment_list import PaymentFilters, PaymentItem, payment_page
from readmodels.page import SequencePosition, TimePosition
from runtime.postgres import session

PaymentPage = page_of(PaymentItem, "PaymentPage")
LedgerPage = page_of(LedgerItem, "LedgerPage")


class RateLimit(Struct, frozen=True):
    """Rate limit of the credential: requests per second, and how many may be sent at once."""

    limit: int
    burst: int


class Me(Struct, frozen=True):
    """The account and the rights of the token. `mode` is test or production; `scopes` are those of the token."""

    account_id: str
    name: str
    mode: str
    scopes: list[str]
    client_id: str
    rate: RateLimit


async def tell_caller(context: ApiContext, call: Call) -> Answer:
    caller = call.caller
    limit, burst = context.rate_of(caller)
    mode = "test" if caller.test else "production"
    rate = RateLimit(limit, burst)
    return Answer(encode(Me(str(caller.account_id), caller.name, mode, caller.scopes, caller.client_id, rate)))


async def list_payments(context: ApiContext, call: Call) -> Answer:
    return await PAYMENTS.read(context, call).page(partial(payment_page, seal=context.seal))


async def read_balance(context: ApiContext, call: Call) -> Answer:
    async with session(context.pool) as conn:
        return Answer(encode(await balance(conn, _own_account(call))))


async def list_ledger(context: ApiContext, call: Call) -> Answer:
    request = LEDGER.read(context, call)
    _own_account(call)
    return await request.page(ledger_page)


def _own_account(call: Call) -> Owner:
    if parse_id(call.path("account_id")) != call.caller.account_id:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
    return call.caller.owner


PAYMENTS = PagedList("payments", TimePosition, PaymentFilters, {"paid": "Paid"})
LEDGER = PagedList(
    "ledger", SequencePosition, LedgerFilters, {"created": "Booked", "type": "Only entries of this type."}
)

ROUTES = routes_of(
    "Money",
    Route(
        method="GET",
        path="/v1/me",
        name="getMe",
        summary="Read the token's account, mode, scopes and rate limit",
        handle=tell_caller,
        tag="Authentication",
        answers={200: Me},
    ),
    Route(
        method="GET",
        path="/v1/payments",
        name="listPayments",
        summary="List payments received",
        handle=list_payments,
        scopes=("payments:read",),
        query=PAYMENTS.parameters,
        answers={200: PaymentPage},
        errors=PAYMENTS.errors,
    ),
    Route(
        method="GET",
        path="/v1/accounts/{account_id:str}/balance",
        name="getBalance",
        summary="Read the balance",
        handle=read_balance,
        scopes=("payments:read",),
        answers={200: Balance},
        errors=(Code.WALLET_ACCOUNT_NOT_FOUND,),
    ),
    Route(
        method="GET",
        path="/v1/accounts/{account_id:str}/ledger",
        name="listLedger",
        summary="List the ledger's entries",
        handle=list_ledger,
        scopes=("payments:read",),
        query=LEDGER.parameters,
        answers={200: LedgerPage},
        errors=(Code.WALLET_ACCOUNT_NOT_FOUND, *LEDGER.errors),
    ),
)
