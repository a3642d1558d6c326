"""The remedy for each error code, for a merchant's engineers; the rest of its page comes from domain.errors.Code."""

from typing import Final

from domain.errors import Code

REMEDIES: Final[dict[Code, str]] = {
    Code.IDEMPOTENCY_KEY_REQUIRED: (
        "Send an Idempotency-Key header: one new UUID per operation, the same one when you repeat it."
    ),
    Code.AMOUNT_INVALID: (
        'Send the amount as a JSON string such as "149.90": ASCII digits, a point, at most two '
        "decimals, never a number."
    ),
    Code.INVALID_DUE_DATE: (
        "Send an existing date as YYYY-MM-DD. A new boleto falls due tomorrow at the earliest, a day of São Paulo."
    ),
    Code.CURSOR_INVALID: (
        "Use next_cursor exactly as received, with the same filters and the same credential, or start without a cursor."
    ),
    Code.LIMIT_INVALID: "Send a whole number from 1 on. Above 100 the limit is taken as 100.",
    Code.INTEGRADOR_CODE_INVALID: (
        "Check the code (INTG- and six of A-Z and 0-9) with your partner, or leave the field out. Nothing was created."
    ),
    Code.CANCEL_REFERENCE_REQUIRED: ("Name the charge by charge_id or by external_id: one of them, not both."),
    Code.ACCOUNT_MISMATCH: "Leave account_id out, or send the account the token belongs to.",
    Code.KYC_REQUIRED: (
        "Complete the account's registration and wait for its approval. Test credentials work meanwhile."
    ),
    Code.PIX_AVULSO_SUSPENDED: (
        "Issue boleto or boleto_hibrido meanwhile. Charges already issued stay payable; sandbox is not affected."
    ),
    Code.SANDBOX_ONLY: (
        "Use a credential of the other mode: some operations exist only with test credentials, some only in production."
    ),
    Code.CHARGE_NOT_FOUND: (
        "Check the id and the credential: charges of another account or of the other mode are answered like this too."
    ),
    Code.REFUND_NOT_FOUND: (
        "Check the id and the credential: refunds of another account or of the other mode are answered like this too."
    ),
    Code.WALLET_ACCOUNT_NOT_FOUND: "Use the account the token belongs to.",
    Code.IDEMPOTENCY_KEY_REUSED: (
        "Use a new key for a new operation. To repeat an operation, repeat method, path and body exactly."
    ),
    Code.CHARGE_NOT_PENDING: (
        "Read the charge: it has been paid, cancelled or has expired meanwhile. Do not repeat the request."
    ),
    Code.CHARGE_NOT_REFUNDABLE: (
        "Only a paid charge can be refunded, PIX within 90 days of the payment and boletos within 180. Money that came "
        "otherwise (GET /v1/payments?anomaly=) is refunded by its payment_id."
    ),
    Code.CANCEL_REFERENCE_AMBIGUOUS: (
        "List the pending charges with this external_id and name the one you mean by its charge_id."
    ),
    Code.REFUND_EXCEEDS: (
        "Read the charge's refunds: pending ones count. Ask for at most what remains, or leave the amount out."
    ),
    Code.MERCHANT_ADDRESS_REQUIRED: (
        "Complete the account's own address in its registration; the bank requires it on every boleto."
    ),
    Code.BANK_UNAVAILABLE: (
        "Repeat the same request with the same Idempotency-Key, after Retry-After when it is given. "
        "Nothing stays registered."
    ),
    Code.UNAUTHENTICATED: (
        "Get a new token from POST /v1/oauth/token and send it as Authorization: Bearer <token>. A token lasts an hour."
    ),
    Code.INSUFFICIENT_SCOPE: ("Ask for a token with the scope this operation needs, from a credential that has it."),
    Code.VALIDATION_ERROR: (
        "See error.fields: each names a field and what is wrong with it. Unknown query parameters of lists are refused."
    ),
    Code.MALFORMED_JSON: "Send one JSON object in UTF-8. Let a JSON library write it.",
    Code.IDEMPOTENCY_KEY_INVALID: "Send 1 to 255 printable ASCII characters; a UUID is best.",
    Code.IDEMPOTENCY_IN_PROGRESS: (
        "Wait as long as Retry-After says, then repeat the same request: it answers with the result of the first."
    ),
    Code.EXPIRES_IN_INVALID: (
        "Send a JSON integer of seconds, from one minute (60) to thirty days (2592000), or leave it out for one day."
    ),
    Code.DATE_RANGE_INVALID: ("Send existing dates as YYYY-MM-DD, the earlier one first. Both days are included."),
    Code.MALFORMED_REQUEST: (
        "Let an HTTP library write the request: no NUL or colon in a header's name, one length that is right. The "
        "connection is closed after this answer."
    ),
    Code.ROUTE_NOT_FOUND: "Check the path; all operations begin with /v1. The list is at /v1/openapi.json.",
    Code.METHOD_NOT_ALLOWED: "The Allow header names the methods of this path.",
    Code.REQUEST_TIMEOUT: (
        "Send headers within 10 seconds and the body within 20, and repeat with the same Idempotency-Key. Nothing was "
        "done, and the connection is closed."
    ),
    Code.PAYLOAD_TOO_LARGE: "Send less than 256 KiB.",
    Code.URI_TOO_LONG: "Ask with fewer filters at once.",
    Code.UNSUPPORTED_MEDIA_TYPE: "Send Content-Type: application/json, the body uncompressed, and no Content-Encoding.",
    Code.RATE_LIMITED: ("Wait as long as Retry-After says. The RateLimit-* headers of every answer tell what is left."),
    Code.INSUFFICIENT_BALANCE: (
        "Read the balance, and repeat with the same Idempotency-Key when the account has received enough: a refund or "
        "withdrawal is taken from the balance the moment it is asked for."
    ),
    Code.REFUND_DESTINATION_REQUIRED: (
        "Add destination with the payer's own pix_key and document: a boleto paid on its line came from no PIX that "
        "could go back."
    ),
    Code.PAYER_EMAIL_REQUIRED: ("Send the address in the field to, or create charges with the payer's email."),
    Code.WITHDRAWAL_NOT_FOUND: (
        "Check the id and the credential: withdrawals of another account are answered like this too."
    ),
    Code.WITHDRAWAL_NOT_CANCELLABLE: "Read the withdrawal: it is on its way to the bank or finished.",
    Code.WITHDRAWAL_BELOW_MINIMUM: "Withdraw 1.00 or more.",
    Code.SCHEDULE_NOT_FOUND: (
        "Check the id and the credential: schedules of another account are answered like this too."
    ),
    Code.SCHEDULE_ENDED: "Read the schedule: it is cancelled or finished. Create another one to go on.",
    Code.DELIVERY_NOT_FOUND: (
        "Check the id and the credential: deliveries of another account or of the other mode are answered like this "
        "too. GET /v1/webhook-deliveries?event_id= finds the delivery of an event."
    ),
    Code.REQUEST_NOT_FOUND: (
        "Check the id (X-Request-Id of the answer) and the credential: requests of another account or of the other "
        "mode are answered like this too. A request is in the log a second or two after its answer, and for 30 days."
    ),
    Code.HEADERS_TOO_LARGE: "Send fewer headers: this service reads Authorization, Idempotency-Key and Content-Type.",
    Code.INTERNAL_ERROR: (
        "Repeat the same request with the same Idempotency-Key. If it goes on, tell us error.request_id."
    ),
    Code.SERVICE_UNAVAILABLE: (
        "Repeat the same request with the same Idempotency-Key after a few seconds, waiting longer each time."
    ),
}
