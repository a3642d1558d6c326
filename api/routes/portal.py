"""POST /v1/portal/charges/{charge_id}/send-email: have a charge mailed to its payer, or to somebody else."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from api.answers import Answer, encode
from api.body.fields import checked, matching, text
from api.body.reading import convert_body
from api.charge_answers import charge_id_of
from api.context import ApiContext
from api.route import Call, Route, routes_of
from commands.mail import MAILED, ask_for_mail
from domain.errors import Code, Refused
from domain.mode import Mode
from domain.payer import EMAIL_MAX, MAIL_ADDRESS, without_link
from runtime.ids import new_id
from runtime.postgres import transaction

MESSAGE_MAX: Final = 1_000
_MESSAGE_FAULT: Final = "must not contain control characters, links or web addresses; a blank follows a full stop"


class SendEmail(Struct, frozen=True, kw_only=True):
    """The e-mail to send. Every field is optional. `message` has at most 1000 characters; `attach_pdf` counts only for
    charges with a boleto."""

    to: Annotated[
        Annotated[str, Meta(max_length=EMAIL_MAX), matching(MAIL_ADDRESS, "must be an e-mail address")] | None,
        Meta(description="E-mail address to send to; by default the payer's."),
    ] = None
    message: Annotated[
        Annotated[str, text(MESSAGE_MAX), checked(without_link, _MESSAGE_FAULT)] | None,
        Meta(description="A message of your own, without links or web addresses."),
    ] = None
    attach_pdf: bool | None = None


class EmailAsked(Struct, frozen=True, kw_only=True):
    """The e-mail that was requested. `status` is `queued`, or `stopped` when the address has unsubscribed from this
    merchant's e-mails or the account is blocked: then none is sent."""

    email_id: str
    charge_id: str
    to: str
    status: str


async def send_email(context: ApiContext, call: Call) -> Answer:
    """Answers 202 once the mail is stored; a worker sends it right after. The mail of a paid charge is a receipt."""
    body = convert_body(call.body, SendEmail)
    charge_id = charge_id_of(call)
    doc = await context.charges.find(charge_id, call.caller.owner)
    if doc.status not in MAILED:
        raise Refused(Code.CHARGE_NOT_PENDING, status=doc.status)
    mail_id = new_id()
    async with transaction(context.pool) as conn:
        to, status = await ask_for_mail(
            conn,
            mail_id=mail_id,
            charge_id=charge_id,
            account_id=call.caller.account_id,
            to=body.to,
            note=body.message or None,
            attach_pdf=body.attach_pdf is not False,
            now=call.now,
            seal=context.seal,
        )
    return Answer(encode(EmailAsked(email_id=str(mail_id), charge_id=doc.charge_id, to=to, status=status)), 202)


ROUTES = routes_of(
    "Charges",
    Route(
        method="POST",
        path="/v1/portal/charges/{charge_id:str}/send-email",
        name="sendChargeEmail",
        summary="Send a charge to its payer by e-mail",
        handle=send_email,
        scopes=("charges:create",),
        body=SendEmail,
        body_optional=True,
        answers={202: EmailAsked},
        errors=(Code.CHARGE_NOT_FOUND, Code.CHARGE_NOT_PENDING, Code.PAYER_EMAIL_REQUIRED),
    ),
    mode=Mode.PRODUCTION,
)
