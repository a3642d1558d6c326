"""The endpoints as spec and contract promise them: scope, key, and each line of their error lists, in our words.

The tables were written from the text of spec and contract and not derived from the code, so that the code can be
compared with them. They have the errors listed for an endpoint; errors of every endpoint are in rules.py.
"""

from typing import Final

from msgspec import Struct

from domain.errors import Code

NO_KEY: Final = (Code.IDEMPOTENCY_KEY_REQUIRED, "Without the header Idempotency-Key.")
REUSED: Final = (Code.IDEMPOTENCY_KEY_REUSED, "The same key with a different body.")
NO_SCOPE: Final = (Code.INSUFFICIENT_SCOPE, "The token lacks the scope.")
NO_CHARGE: Final = (Code.CHARGE_NOT_FOUND, "No such charge, another merchant's, or of the other mode: one generic 404.")
NOT_PENDING: Final = (Code.CHARGE_NOT_PENDING, "The charge is paid, cancelled, expired or failed; it stays as it is.")
UNCONFIRMED: Final = (Code.BANK_UNAVAILABLE, "The bank does not confirm; nothing changed, retryable.")
AMBIGUOUS: Final = (Code.CANCEL_REFERENCE_AMBIGUOUS, "Several pending charges share the external_id.")
NO_APPROVAL: Final = (Code.KYC_REQUIRED, "Production, and the account is not approved.")
LIMIT: Final = (Code.LIMIT_INVALID, "A limit that is no whole number, or is 0 or less.")
CURSOR: Final = (Code.CURSOR_INVALID, "A malformed cursor.")
RANGE: Final = (Code.DATE_RANGE_INVALID, "A range that names no existing date, or ends before it begins.")
FILTER: Final = (Code.VALIDATION_ERROR, "An unknown query parameter, or a value the filter does not have.")
SANDBOX_GATE: Final = (Code.SANDBOX_ONLY, "With a test credential, before everything else but its token.")
TEST_GATE: Final = (Code.SANDBOX_ONLY, "With a production credential.")
SHAPE: Final = (Code.VALIDATION_ERROR, "A field that is missing or of the wrong shape; `fields` names it.")
IN_PROGRESS: Final = (
    Code.IDEMPOTENCY_IN_PROGRESS,
    "The same key while the first call still runs, after 15 s of waiting.",
)


class Endpoint(Struct, frozen=True, kw_only=True):
    """An endpoint: `where` is spec or the contract's section; `answers` describes the answer to a granted request."""

    operation: str
    where: str
    method: str
    path: str
    scopes: tuple[str, ...]
    key: bool = False
    answers: str
    errors: tuple[tuple[Code, str], ...] = ()


_LIST: Final = (LIMIT, CURSOR, FILTER)
_CREATE: Final = ("charges:create",)
_READ: Final = ("charges:read",)
_MONEY: Final = ("payments:read",)
_EITHER: Final = ("payments:read", "charges:read")
_PAGE: Final = "200 with `data` and `next_cursor`."

# fmt: off
ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        operation="createPixCharge", where="spec", method="POST", path="/v1/charges/pix", scopes=_CREATE, key=True,
        answers="201 with the charge: pending, `pix` filled, `payment` and `due_date` null, `expires_at` set. 200 for "
                "a replay.",
        errors=(
            NO_KEY,
            (Code.AMOUNT_INVALID, "The amount is missing, no string, malformed or not greater than 0."),
            REUSED,
            (Code.CHARGE_NOT_FOUND, "The account_id does not exist or belongs to another merchant."),
            NO_SCOPE,
            (Code.PIX_AVULSO_SUSPENDED, "Standalone PIX is suspended, in production."),
            (Code.EXPIRES_IN_INVALID, "expires_in is no whole number from 60 to 2592000."),
            SHAPE, NO_APPROVAL, IN_PROGRESS,
            (Code.BANK_UNAVAILABLE, "No location is left and the bank makes none."),
        ),
    ),
    Endpoint(
        operation="createBoletoCharge", where="spec", method="POST", path="/v1/charges/boleto", scopes=_CREATE,
        key=True,
        answers="201 with charge_id, external_id, public_id, payment_method, status pending, amount, `boleto`, "
                "created_at. "
                "200 for a replay.",
        errors=(
            NO_KEY,
            (Code.AMOUNT_INVALID, "valorCents is malformed."),
            (Code.INVALID_DUE_DATE, "dataVencimento is impossible, or not in the future."),
            (Code.INTEGRADOR_CODE_INVALID, "The partner code does not exist or is inactive; no boleto is created."),
            (Code.ACCOUNT_MISMATCH, "The account_id is not the token's account."),
            REUSED,
            (Code.MERCHANT_ADDRESS_REQUIRED, "The beneficiary's own address is incomplete."),
            (Code.BANK_UNAVAILABLE, "The registration failed; no charge stays, retryable."),
            NO_SCOPE,
            (Code.PIX_AVULSO_SUSPENDED, "tipo boleto_pix while standalone PIX is suspended, in production."),
            SHAPE, NO_APPROVAL, IN_PROGRESS,
        ),
    ),
    Endpoint(
        operation="printBoleto", where="spec", method="GET", path="/v1/charges/boleto/{charge_id}/pdf", scopes=_READ,
        answers="200 application/pdf as an attachment.",
        errors=((Code.CHARGE_NOT_FOUND, "No such id, another merchant's, or no boleto: one generic 404."), NO_SCOPE),
    ),
    Endpoint(
        operation="getCharge", where="spec", method="GET", path="/v1/charges/{charge_id}", scopes=_READ,
        answers="200 with the charge as it is now.", errors=(NO_CHARGE, NO_SCOPE),
    ),
    Endpoint(
        operation="cancelCharge", where="spec", method="POST", path="/v1/charges/{charge_id}/cancel", scopes=_CREATE,
        answers="200 with the charge, cancelled.", errors=(NOT_PENDING, UNCONFIRMED, NO_CHARGE, NO_SCOPE),
    ),
    Endpoint(
        operation="cancelChargeByReference", where="spec", method="POST", path="/v1/charges/cancel", scopes=_CREATE,
        answers="200 with the charge, cancelled.",
        errors=(
            NOT_PENDING, UNCONFIRMED, NO_SCOPE,
            (Code.CANCEL_REFERENCE_REQUIRED, "Neither or both of charge_id and external_id."),
            (Code.CHARGE_NOT_FOUND, "No pending charge with that external_id; nonexistent, another merchant's, or "
                                    "other mode."),
            AMBIGUOUS, SHAPE,
        ),
    ),
    Endpoint(
        operation="changeDueDate", where="spec", method="PATCH", path="/v1/charges/due-date", scopes=_CREATE,
        answers="200 with the charge and its new `due_date`.",
        errors=(
            (Code.INVALID_DUE_DATE, "due_date is missing, malformed, nonexistent or past."),
            (Code.CHARGE_NOT_FOUND, "No pending charge with that identifier, another merchant's, of the other mode; "
                                    "or a PIX charge."),
            NOT_PENDING, AMBIGUOUS, UNCONFIRMED, NO_SCOPE,
            (Code.CANCEL_REFERENCE_REQUIRED, "Neither or both of charge_id and external_id."),
        ),
    ),
    Endpoint(
        operation="simulatePayment", where="spec", method="POST", path="/v1/charges/{charge_id}/simulate-payment",
        scopes=_CREATE, answers="200 with the charge, paid.",
        errors=(TEST_GATE, NO_CHARGE, NOT_PENDING, NO_SCOPE, UNCONFIRMED),
    ),
    Endpoint(
        operation="listPayments", where="spec", method="GET", path="/v1/payments", scopes=_MONEY, answers=_PAGE,
        errors=(*_LIST, RANGE, NO_SCOPE),
    ),
    Endpoint(
        operation="listEvents", where="spec", method="GET", path="/v1/events", scopes=_EITHER, answers=_PAGE,
        errors=(*_LIST, RANGE, NO_SCOPE),
    ),
    Endpoint(
        operation="getMe", where="contract 20", method="GET", path="/v1/me", scopes=(),
        answers="200 with account_id, name, mode, scopes, client_id, rate {limit, burst}, whatever the token may do.",
    ),
    Endpoint(
        operation="getBalance", where="spec", method="GET", path="/v1/accounts/{account_id}/balance", scopes=_MONEY,
        answers="200 with `balance` and `currency` BRL.",
        errors=((Code.WALLET_ACCOUNT_NOT_FOUND, "A nonexistent account, or another merchant's."), NO_SCOPE),
    ),
    Endpoint(
        operation="listLedger", where="spec", method="GET", path="/v1/accounts/{account_id}/ledger", scopes=_MONEY,
        answers=_PAGE,
        errors=((Code.WALLET_ACCOUNT_NOT_FOUND, "A nonexistent account, or another merchant's."), *_LIST, RANGE,
        NO_SCOPE),
    ),
    Endpoint(
        operation="createDualCharge", where="spec, contract 12", method="POST", path="/v1/charges/dual", scopes=_CREATE,
        key=True, answers="201 with the charge: `pix` and `boleto` filled, `legs`. 200 for a replay.",
        errors=(
            NO_KEY, REUSED, NO_SCOPE,
            (Code.PIX_AVULSO_SUSPENDED, "Standalone PIX is suspended, in production."),
            (Code.AMOUNT_INVALID, "The amount is malformed."),
            (Code.INVALID_DUE_DATE, "due_date is impossible, or not in the future."),
            (Code.EXPIRES_IN_INVALID, "expires_in is no whole number from 60 to 2592000, or is given beside terms."),
            (Code.INTEGRADOR_CODE_INVALID, "The partner code does not exist or is inactive."),
            (Code.ACCOUNT_MISMATCH, "The account_id is not the token's account."),
            (Code.MERCHANT_ADDRESS_REQUIRED, "The beneficiary's own address is incomplete."),
            (Code.BANK_UNAVAILABLE, "The registration failed; neither leg stays."),
            SHAPE, NO_APPROVAL, IN_PROGRESS,
        ),
    ),
    Endpoint(
        operation="listCharges", where="spec, contract 10", method="GET", path="/v1/charges", scopes=_READ,
        answers=_PAGE,
        errors=(*_LIST, RANGE, NO_SCOPE),
    ),
    Endpoint(
        operation="summarizeCharges", where="contract 10", method="GET", path="/v1/charges/summary", scopes=_READ,
        answers="200 with count and amount of each status.", errors=(FILTER, RANGE, NO_SCOPE),
    ),
    Endpoint(
        operation="createRefund", where="spec, contract 11", method="POST", path="/v1/charges/{charge_id}/refunds",
        scopes=("refunds:create",), key=True, answers="201 with the refund, pending. 200 for a replay.",
        errors=(
            NO_KEY, REUSED, NO_SCOPE, NO_CHARGE,
            (Code.AMOUNT_INVALID, "An amount that is given and malformed."),
            (Code.CHARGE_NOT_REFUNDABLE, "The charge is not paid, or was over 90 days (PIX) or 180 days (boleto) ago."),
            (Code.REFUND_DESTINATION_REQUIRED, "A boleto paid on its line, and no destination."),
            (Code.REFUND_EXCEEDS, "More than remains; pending refunds count."),
            (Code.INSUFFICIENT_BALANCE, "The wallet does not cover it."),
            SHAPE, IN_PROGRESS,
        ),
    ),
    Endpoint(
        operation="getRefund", where="spec, contract 11", method="GET", path="/v1/refunds/{refund_id}", scopes=_MONEY,
        answers="200 with the refund.",
        errors=((Code.REFUND_NOT_FOUND, "No such refund, another merchant's, or of the other mode."), NO_SCOPE),
    ),
    Endpoint(
        operation="listRefunds", where="contract 11", method="GET", path="/v1/refunds", scopes=_MONEY, answers=_PAGE,
        errors=(*_LIST, RANGE, NO_SCOPE),
    ),
    Endpoint(
        operation="listRefundsOfCharge", where="contract 11", method="GET", path="/v1/charges/{charge_id}/refunds",
        scopes=_MONEY, answers=_PAGE, errors=(NO_CHARGE, *_LIST, NO_SCOPE),
    ),
    Endpoint(
        operation="createWithdrawal", where="contract 13", method="POST", path="/v1/withdrawals",
        scopes=("withdrawals:create",), key=True, answers="201 with the withdrawal, pending. 200 for a replay.",
        errors=(
            SANDBOX_GATE, NO_SCOPE, NO_KEY, REUSED,
            (Code.AMOUNT_INVALID, "The amount is malformed."),
            NO_APPROVAL,
            (Code.WITHDRAWAL_BELOW_MINIMUM, "Less than 1.00."),
            (Code.INSUFFICIENT_BALANCE, "The wallet does not cover it."),
            SHAPE, IN_PROGRESS,
        ),
    ),
    Endpoint(
        operation="listWithdrawals", where="contract 13", method="GET", path="/v1/withdrawals", scopes=_MONEY,
        answers=_PAGE, errors=(SANDBOX_GATE, *_LIST, RANGE, NO_SCOPE),
    ),
    Endpoint(
        operation="getWithdrawal", where="contract 13", method="GET", path="/v1/withdrawals/{withdrawal_id}",
        scopes=_MONEY, answers="200 with the withdrawal.",
        errors=(SANDBOX_GATE, (Code.WITHDRAWAL_NOT_FOUND, "No such withdrawal, or another merchant's."), NO_SCOPE),
    ),
    Endpoint(
        operation="cancelWithdrawal", where="contract 13", method="POST", path="/v1/withdrawals/{withdrawal_id}/cancel",
        scopes=("withdrawals:create",), answers="200 with the withdrawal, cancelled.",
        errors=(
            SANDBOX_GATE, NO_SCOPE,
            (Code.WITHDRAWAL_NOT_FOUND, "No such withdrawal, or another merchant's."),
            (Code.WITHDRAWAL_NOT_CANCELLABLE, "It is not pending any more."),
        ),
    ),
    Endpoint(
        operation="createSchedule", where="contract 13", method="POST", path="/v1/charge-schedules",
        scopes=("schedules:write",), key=True, answers="201 with the schedule. 200 for a replay.",
        errors=(
            SANDBOX_GATE, NO_SCOPE, NO_KEY, REUSED,
            (Code.AMOUNT_INVALID, "The amount is malformed."),
            (Code.INVALID_DUE_DATE, "first_due_date is impossible, or not in the future."),
            (Code.DATE_RANGE_INVALID, "end_date is no date, or before first_due_date."),
            NO_APPROVAL,
            (Code.MERCHANT_ADDRESS_REQUIRED, "Boletos, and the beneficiary's own address is incomplete."),
            SHAPE,
        ),
    ),
    Endpoint(
        operation="listSchedules", where="contract 13", method="GET", path="/v1/charge-schedules", scopes=_MONEY,
        answers=_PAGE, errors=(SANDBOX_GATE, *_LIST, NO_SCOPE),
    ),
    Endpoint(
        operation="getSchedule", where="contract 13", method="GET", path="/v1/charge-schedules/{schedule_id}",
        scopes=_MONEY, answers="200 with the schedule.",
        errors=(SANDBOX_GATE, (Code.SCHEDULE_NOT_FOUND, "No such schedule, or another merchant's."), NO_SCOPE),
    ),
    Endpoint(
        operation="listChargesOfSchedule", where="contract 13", method="GET",
        path="/v1/charge-schedules/{schedule_id}/charges", scopes=_EITHER, answers=_PAGE,
        errors=(SANDBOX_GATE, (Code.SCHEDULE_NOT_FOUND, "No such schedule, or another merchant's."), *_LIST, NO_SCOPE),
    ),
    *(
        Endpoint(
            operation=f"{change}Schedule", where="contract 13", method="POST",
            path=f"/v1/charge-schedules/{{schedule_id}}/{change}", scopes=("schedules:write",),
            answers=f"200 with the schedule, {done}.",
            errors=(
                SANDBOX_GATE, NO_SCOPE, (Code.SCHEDULE_NOT_FOUND, "No such schedule, or another merchant's."),
                (Code.SCHEDULE_ENDED, "It has ended: finished or cancelled."),
            ),
        )
        for change, done in (("pause", "paused"), ("resume", "active"), ("cancel", "cancelled"))
    ),
    Endpoint(
        operation="sendChargeEmail", where="spec, contract 13", method="POST",
        path="/v1/portal/charges/{charge_id}/send-email", scopes=_CREATE,
        answers="202 with email_id, charge_id, to, status.",
        errors=(
            SANDBOX_GATE, NO_CHARGE, NO_SCOPE,
            (Code.PAYER_EMAIL_REQUIRED, "No `to`, and the payer has no address."),
            (Code.CHARGE_NOT_PENDING, "There is nothing to be paid and nothing was: cancelled, expired, failed."),
            SHAPE,
        ),
    ),
    Endpoint(
        operation="getIdempotencyKey", where="contract 4", method="GET", path="/v1/idempotency-keys/{key}",
        scopes=_READ,
        answers="200 with state, resource_type, resource_id, first_used_at, replay_count.",
        errors=((Code.IDEMPOTENCY_KEY_INVALID, "No key could be so."), NO_SCOPE),
    ),
    Endpoint(
        operation="listRequests", where="contract 14", method="GET", path="/v1/requests", scopes=_READ, answers=_PAGE,
        errors=(*_LIST, NO_SCOPE),
    ),
    Endpoint(
        operation="getRequest", where="contract 14", method="GET", path="/v1/requests/{request_id}", scopes=_READ,
        answers="200 with the request; in the sandbox a write's bodies, redacted.",
        errors=((Code.REQUEST_NOT_FOUND, "No such request, another merchant's, or of the other mode."), NO_SCOPE),
    ),
    Endpoint(
        operation="listWebhookDeliveries", where="contract 9", method="GET", path="/v1/webhook-deliveries",
        scopes=_EITHER, answers=_PAGE, errors=(*_LIST, RANGE, NO_SCOPE),
    ),
    Endpoint(
        operation="getWebhookDelivery", where="contract 9", method="GET", path="/v1/webhook-deliveries/{delivery_id}",
        scopes=_EITHER, answers="200 with the delivery and its attempts.",
        errors=((Code.DELIVERY_NOT_FOUND, "No such delivery, another merchant's, or of the other mode."), NO_SCOPE),
    ),
    Endpoint(
        operation="redeliverWebhook", where="contract 9", method="POST",
        path="/v1/webhook-deliveries/{delivery_id}/redeliver", scopes=_CREATE, answers="202 with the delivery.",
        errors=((Code.DELIVERY_NOT_FOUND, "No such delivery, another merchant's, or of the other mode."), NO_SCOPE),
    ),
    Endpoint(
        operation="redeliverEvents", where="contract 9", method="POST", path="/v1/events/redeliver", scopes=_CREATE,
        answers="202 with how many deliveries are on their way.", errors=(SHAPE, NO_SCOPE),
    ),
    Endpoint(
        operation="sandboxExpire", where="contract 14", method="POST", path="/v1/sandbox/charges/{charge_id}/expire",
        scopes=_CREATE, answers="200 with the charge, expired.", errors=(TEST_GATE, NO_CHARGE, NOT_PENDING, NO_SCOPE),
    ),
    Endpoint(
        operation="sandboxFail", where="contract 14", method="POST", path="/v1/sandbox/charges/{charge_id}/fail",
        scopes=_CREATE, answers="200 with the charge, failed.",
        errors=(TEST_GATE, NO_CHARGE, NOT_PENDING, NO_SCOPE, UNCONFIRMED),
    ),
    Endpoint(
        operation="sandboxPay", where="contract 14", method="POST", path="/v1/sandbox/charges/{charge_id}/pay",
        scopes=_CREATE, answers="200 with the charge, once the money has arrived.",
        errors=(
            TEST_GATE, NO_CHARGE, NO_SCOPE, (Code.AMOUNT_INVALID, "An amount that is given and malformed."), SHAPE,
            UNCONFIRMED,
        ),
    ),
    Endpoint(
        operation="readSandboxClock", where="contract 14", method="GET", path="/v1/sandbox/clock",
        scopes=("charges:create", "charges:read"), answers="200 with what the clock shows.", errors=(TEST_GATE,
        NO_SCOPE),
    ),
    Endpoint(
        operation="advanceSandboxClock", where="contract 14", method="POST", path="/v1/sandbox/clock", scopes=_CREATE,
        answers="200 with the clock, once everything that is due has happened.",
        errors=(
            TEST_GATE, NO_SCOPE,
            (Code.VALIDATION_ERROR, "No duration forward, more than a year, neither or both of `advance` and `to`."),
            (Code.SERVICE_UNAVAILABLE, "Not everything that is due has happened in time."),
        ),
    ),
)
# fmt: on

TOKEN_PATH: Final = "/v1/oauth/token"

CODES: Final[dict[int, tuple[Code, ...]]] = {
    400: (
        Code.IDEMPOTENCY_KEY_REQUIRED, Code.AMOUNT_INVALID, Code.INVALID_DUE_DATE, Code.CURSOR_INVALID,
        Code.LIMIT_INVALID, Code.INTEGRADOR_CODE_INVALID, Code.CANCEL_REFERENCE_REQUIRED,
    ),
    401: (Code.UNAUTHENTICATED,),
    403: (
        Code.INSUFFICIENT_SCOPE, Code.ACCOUNT_MISMATCH, Code.KYC_REQUIRED, Code.PIX_AVULSO_SUSPENDED, Code.SANDBOX_ONLY,
    ),
    404: (Code.CHARGE_NOT_FOUND, Code.REFUND_NOT_FOUND, Code.WALLET_ACCOUNT_NOT_FOUND),
    409: (
        Code.IDEMPOTENCY_KEY_REUSED, Code.CHARGE_NOT_PENDING, Code.CHARGE_NOT_REFUNDABLE,
        Code.CANCEL_REFERENCE_AMBIGUOUS,
    ),
    422: (Code.REFUND_EXCEEDS, Code.MERCHANT_ADDRESS_REQUIRED),
    429: (Code.RATE_LIMITED,),
    502: (Code.BANK_UNAVAILABLE,),
}  # fmt: skip
"""The spec's table of errors. It has no code for 401, 429 and the missing scope; the contract gives each one."""
