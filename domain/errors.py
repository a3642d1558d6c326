"""Every refusal this service can give, in one table. The pages at {docs_url}/errors/<code> are made from it."""

from enum import Enum, unique
from typing import Final, TypeVar

from domain.money import reais

Found = TypeVar("Found")


@unique
class Code(Enum):
    """One refusal: HTTP status, whether repeating the same request may succeed later, and its message."""

    # fmt: off
    # The codes of the spec.
    IDEMPOTENCY_KEY_REQUIRED   = 400, False, "This operation needs an Idempotency-Key header."
    AMOUNT_INVALID             = 400, False, "The amount must be a string such as \"10.50\", greater than 0."
    INVALID_DUE_DATE           = 400, False, "The due date must be an existing date that is not too early."
    CURSOR_INVALID             = 400, False, "The cursor does not belong to this list; start again without one."
    LIMIT_INVALID              = 400, False, "The limit must be a whole number greater than 0."
    INTEGRADOR_CODE_INVALID    = 400, False, "The integrador_code does not exist or is not active."
    CANCEL_REFERENCE_REQUIRED  = 400, False, "Give exactly one of charge_id and external_id."
    ACCOUNT_MISMATCH           = 403, False, "The account_id is not the token's account."
    KYC_REQUIRED               = 403, False, "The account's registration is not approved."
    PIX_AVULSO_SUSPENDED       = 403, True,  "Issuing PIX charges without a boleto is suspended for now."
    SANDBOX_ONLY               = 403, False, "This operation is not available with this credential's mode."
    CHARGE_NOT_FOUND           = 404, False, "No such charge in this account and mode; a charge_id is a UUID."
    REFUND_NOT_FOUND           = 404, False, "No such refund."
    WALLET_ACCOUNT_NOT_FOUND   = 404, False, "No such account."
    IDEMPOTENCY_KEY_REUSED     = 409, False, "This Idempotency-Key was used with another request: take a new one."
    CHARGE_NOT_PENDING         = 409, False, "The charge is no longer pending."
    CHARGE_NOT_REFUNDABLE      = 409, False, "The charge cannot be refunded."
    CANCEL_REFERENCE_AMBIGUOUS = 409, False, "Several pending charges share this external_id; use charge_id."
    REFUND_EXCEEDS             = 422, False, "The refund is larger than what remains of the payment."
    MERCHANT_ADDRESS_REQUIRED  = 422, False, "The account's own address is incomplete."
    BANK_UNAVAILABLE           = 502, True,  "The bank did not confirm; nothing was changed. Try again."
    # The codes that the contract adds.
    UNAUTHENTICATED            = 401, False, "The access token is missing, invalid or expired."
    INSUFFICIENT_SCOPE         = 403, False, "The access token lacks the scope this operation needs."
    VALIDATION_ERROR           = 400, False, "The request is not of the documented shape."
    MALFORMED_JSON             = 400, False, "The body is not valid JSON."
    IDEMPOTENCY_KEY_INVALID    = 400, False, "The Idempotency-Key must be 1 to 255 printable ASCII characters."
    IDEMPOTENCY_IN_PROGRESS    = 409, True,  "A request with this Idempotency-Key is still running."
    EXPIRES_IN_INVALID         = 400, False, "expires_in must be a whole number of seconds from 60 to 2592000."
    DATE_RANGE_INVALID         = 400, False, "The range names no existing date, or ends before it begins."
    MALFORMED_REQUEST          = 400, False, "This is not a whole and well-formed HTTP request."
    ROUTE_NOT_FOUND            = 404, False, "There is nothing at this path."
    METHOD_NOT_ALLOWED         = 405, False, "This path does not answer to this method."
    REQUEST_TIMEOUT            = 408, True,  "The request did not arrive in time."
    PAYLOAD_TOO_LARGE          = 413, False, "The body is larger than 256 KiB."
    URI_TOO_LONG               = 414, False, "The path with its query is longer than 16 KiB."
    UNSUPPORTED_MEDIA_TYPE     = 415, False, "The body must be application/json."
    RATE_LIMITED               = 429, True,  "Too many requests. To poll cheaply, use GET /v1/events?after_sequence=."
    INSUFFICIENT_BALANCE       = 422, True,  "The account's balance does not cover this."
    REFUND_DESTINATION_REQUIRED = 422, False, "A boleto is refunded to a PIX key: give a destination."
    PAYER_EMAIL_REQUIRED       = 422, False, "The charge's payer has no e-mail address."
    WITHDRAWAL_NOT_FOUND       = 404, False, "No such withdrawal."
    WITHDRAWAL_NOT_CANCELLABLE = 409, False, "The withdrawal can no longer be cancelled."
    WITHDRAWAL_BELOW_MINIMUM   = 422, False, "The withdrawal is below the minimum of 1.00."
    SCHEDULE_NOT_FOUND         = 404, False, "No such schedule."
    SCHEDULE_ENDED             = 409, False, "The schedule has ended."
    DELIVERY_NOT_FOUND         = 404, False, "No such webhook delivery."
    REQUEST_NOT_FOUND          = 404, False, "No such request in the log."
    HEADERS_TOO_LARGE          = 431, False, "The headers are larger than 32 KiB."
    INTERNAL_ERROR             = 500, True,  "Something went wrong on our side; the request id finds it in our logs."
    SERVICE_UNAVAILABLE        = 503, True,  "The service cannot answer right now. Try again."
    # fmt: on

    def __init__(self, status: int, retry: bool, message: str) -> None:
        self.status = status
        self.retry = retry
        self.message = message


# Messages for refusals that carry facts: the first sentence whose facts are all given is used. Facts that are amounts
# are given in cents and printed in reais.
_SENTENCES: Final[dict[Code, tuple[str, ...]]] = {
    Code.CHARGE_NOT_PENDING: ("The charge is no longer pending: it is {status}.",),
    Code.CHARGE_NOT_REFUNDABLE: (
        "The charge cannot be refunded: it is {status}.",
        "The charge cannot be refunded: it was paid on {paid_on:%Y-%m-%d}, and a PIX goes back within 90 days, the "
        "money of a boleto within 180.",
    ),
    Code.REFUND_EXCEEDS: ("The refund is larger than what remains of the payment: {remaining_cents}.",),
    Code.INSUFFICIENT_BALANCE: ("The account's balance does not cover this: it is {balance}.",),
    Code.INSUFFICIENT_SCOPE: ("The access token lacks the scope this operation needs: {needed}.",),
    Code.WITHDRAWAL_NOT_CANCELLABLE: ("The withdrawal can no longer be cancelled: it is {status}.",),
    Code.SCHEDULE_ENDED: ("The schedule has ended: it is {status}.",),
}


class Refused(Exception):
    """The request is understood and declined. `code` gives the reason; `facts` give the values.

    `message` replaces the code's own sentence, or that of its facts, where these would leave open which of several
    causes applies. `fields` (a dict of field name to message) becomes `error.fields`; `retry_after_s` becomes the
    Retry-After header.
    """

    def __init__(
        self,
        code: Code,
        *,
        message: str | None = None,
        fields: dict[str, str] | None = None,
        retry_after_s: int | None = None,
        **facts: object,
    ) -> None:
        super().__init__(code.name)
        self.code = code
        self.message = message or _sentence(code, facts)
        self.fields = fields
        self.retry_after_s = retry_after_s
        self.facts = facts


def _sentence(code: Code, facts: dict[str, object]) -> str:
    printed = {
        name: reais(each) if name.endswith("_cents") and isinstance(each, int) else each for name, each in facts.items()
    }
    for sentence in _SENTENCES.get(code, ()):
        try:
            return sentence.format(**printed)
        except KeyError:
            continue
    return code.message


def required(found: Found | None, code: Code) -> Found:
    """Returns `found`; Refused(code) when it is None."""
    if found is None:
        raise Refused(code)
    return found
