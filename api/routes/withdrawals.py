"""Withdrawals: the balance to the account's own PIX key (contract section 13). Production only."""

from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.answers import Answer, encode
from api.body.fields import EXTERNAL_ID_MAX, Amount, Description, pix_cents, text
from api.body.reading import shaped
from api.context import ApiContext
from api.idempotency.replay import count_first, replay
from api.idempotency.used_keys import UsedKey
from api.paging import page_of, paged
from api.query import CURSOR, LIMIT, ORDER, Query, day, one_of, path_id, word
from api.route import Call, Route
from commands.money.withdraw import NewWithdrawal, cancel_withdrawal
from domain.errors import Code, Refused
from domain.mode import Mode, Owner
from domain.money import reais
from domain.withdrawal import MINIMUM_CENTS
from readmodels.money.withdrawal import (
    STATUSES,
    WithdrawalDoc,
    WithdrawalFilters,
    WithdrawalProjection,
    project_withdrawal,
    withdrawal_doc,
    withdrawal_page,
)
from readmodels.page import TimePosition
from runtime.ids import new_id
from runtime.postgres import session, transaction
from sql import Connection


class CreateWithdrawal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body. It goes to the PIX key registered for the account, and to no other."""

    amount: Annotated[Amount, Meta(description=f"Decimal reais; below {reais(MINIMUM_CENTS)} it is refused with 422.")]
    description: Annotated[
        Description | None, Meta(description="Told to the bank, folded to its letters and 140 characters.")
    ] = None
    external_id: Annotated[
        Annotated[str, text(EXTERNAL_ID_MAX)] | None,
        Meta(description="The withdrawal's own reference; need not be unique."),
    ] = None


WithdrawalPage = page_of(WithdrawalProjection, "WithdrawalPage")


async def create(context: ApiContext, call: Call) -> Answer:
    """201 with the pending withdrawal; 200 when the key made it before. The bank is told after, by a worker."""
    asked = shaped(call.body, CreateWithdrawal)
    if (used := await context.keys.find(call.key_name)) is not None:
        return await _replay(context, call, used)
    new = NewWithdrawal(
        account_id=call.caller.account_id,
        key=call.key,
        fingerprint=call.fingerprint,
        withdrawal_id=new_id(),
        amount_cents=pix_cents(asked.amount),
        description=asked.description,
        external_id=asked.external_id,
        actor=call.caller.client_id,
        request_id=call.request_id,
    )
    made = await context.guard.run(call.key_name, partial(context.withdrawals.create, new))
    if isinstance(made, UsedKey):
        return await _replay(context, call, made)
    count_first()
    return Answer(encode(project_withdrawal(made)), 201)


async def look_up(context: ApiContext, call: Call) -> Answer:
    return Answer(encode(project_withdrawal(await _find(context, call, _id(call)))))


async def list_withdrawals(context: ApiContext, call: Call) -> Answer:
    query = Query(call.scope["query_string"], LIST)
    created_from, created_to = query.days("created_from", "created_to")
    filters = WithdrawalFilters(
        statuses=query.choices("status", STATUSES),
        external_id=query.text("external_id"),
        created_from=created_from,
        created_to=created_to,
        order=query.order(),
    )

    async def rows(conn: Connection, owner: Owner, *rest: Any) -> Any:
        return await withdrawal_page(conn, owner.account_id, *rest)

    return await paged(context, call, query, "withdrawals", filters, TimePosition, rows, project_withdrawal)


async def cancel(context: ApiContext, call: Call) -> Answer:
    """While it is pending: the money is back in the wallet with this answer."""
    withdrawal_id = _id(call)
    async with transaction(context.pool) as conn:
        doc = await cancel_withdrawal(
            conn,
            withdrawal_id,
            call.caller.account_id,
            actor=call.caller.client_id,
            request_id=call.request_id,
            now=call.now,
        )
    return Answer(encode(project_withdrawal(doc)))


async def _replay(context: ApiContext, call: Call, used: UsedKey) -> Answer:
    async def find(withdrawal_id: UUID) -> WithdrawalProjection:
        return project_withdrawal(await _find(context, call, withdrawal_id))

    return await replay(context, call, used, find)


async def _find(context: ApiContext, call: Call, withdrawal_id: UUID) -> WithdrawalDoc:
    async with session(context.pool) as conn:
        found = await withdrawal_doc(conn, withdrawal_id, call.caller.account_id)
    if found is None:
        raise Refused(Code.WITHDRAWAL_NOT_FOUND)
    return found


def _id(call: Call) -> UUID:
    withdrawal_id = path_id(call.path("withdrawal_id"))
    if withdrawal_id is None:
        raise Refused(Code.WITHDRAWAL_NOT_FOUND)
    return withdrawal_id


LIST = (
    one_of("status", STATUSES, repeatable=True),
    word("external_id", "The withdrawal's own reference."),
    day("created_from", "Asked for on or after this day"),
    day("created_to", "Asked for on or before this day"),
    ORDER,
    LIMIT,
    CURSOR,
)
_PATH: Final = "/v1/withdrawals"

ROUTES = (
    Route(
        method="POST",
        path=_PATH,
        name="createWithdrawal",
        summary="Withdraw from the balance to the account's PIX key",
        tag="Withdrawals",
        handle=create,
        scopes=("withdrawals:create",),
        mode=Mode.PRODUCTION,
        key=True,
        body=CreateWithdrawal,
        answers={201: WithdrawalProjection, 200: WithdrawalProjection},
        errors=(
            Code.AMOUNT_INVALID,
            Code.IDEMPOTENCY_KEY_REUSED,
            Code.IDEMPOTENCY_IN_PROGRESS,
            Code.KYC_REQUIRED,
            Code.WITHDRAWAL_BELOW_MINIMUM,
            Code.INSUFFICIENT_BALANCE,
        ),
    ),
    Route(
        method="GET",
        path=_PATH,
        name="listWithdrawals",
        summary="List withdrawals",
        tag="Withdrawals",
        handle=list_withdrawals,
        scopes=("payments:read",),
        mode=Mode.PRODUCTION,
        query=LIST,
        answers={200: WithdrawalPage},
        errors=(Code.VALIDATION_ERROR, Code.DATE_RANGE_INVALID, Code.LIMIT_INVALID, Code.CURSOR_INVALID),
    ),
    Route(
        method="GET",
        path=_PATH + "/{withdrawal_id:str}",
        name="getWithdrawal",
        summary="Look a withdrawal up",
        tag="Withdrawals",
        handle=look_up,
        scopes=("payments:read",),
        mode=Mode.PRODUCTION,
        answers={200: WithdrawalProjection},
        errors=(Code.WITHDRAWAL_NOT_FOUND,),
    ),
    Route(
        method="POST",
        path=_PATH + "/{withdrawal_id:str}/cancel",
        name="cancelWithdrawal",
        summary="Cancel a pending withdrawal",
        tag="Withdrawals",
        handle=cancel,
        scopes=("withdrawals:create",),
        mode=Mode.PRODUCTION,
        answers={200: WithdrawalProjection},
        errors=(Code.WITHDRAWAL_NOT_FOUND, Code.WITHDRAWAL_NOT_CANCELLABLE),
    ),
)
