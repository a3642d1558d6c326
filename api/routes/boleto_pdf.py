"""The boleto on paper: GET /v1/charges/boleto/{charge_id}/pdf."""

from msgspec import Struct

from api.answers import Answer, Bytes
from api.charge_answers import charge_id_of
from api.context import ApiContext
from api.route import Call, Route, routes_of
from domain.errors import Code, required
from readmodels.charges.boleto import boleto_to_print
from runtime.postgres import session


class Pdf(Struct, frozen=True):
    """Stands in the table of routes for a body that is a file and not JSON."""

    description: str


async def print_boleto(context: ApiContext, call: Call) -> Answer:
    """One A4 page as an attachment named after the boleto's number at the bank.

    What is no id, is unknown, of somebody else, of the other mode or no boleto is one and the same 404. A boleto is
    handed out in every state; one that is not to be paid any more says so and carries no codes
    (readmodels/charges/boleto.py).
    """
    charge_id = charge_id_of(call)
    async with session(context.pool) as conn:
        found = await boleto_to_print(
            conn, charge_id, call.caller.owner, seal=context.seal, settings=context.settings, now=call.at
        )
    boleto = required(found, Code.CHARGE_NOT_FOUND)
    answer = Bytes(await context.printer.printed(boleto), b"application/pdf")
    # The name is ours, ASCII without blanks or quotes: RFC 6266's plain form says it all.
    answer.raw_headers.append((b"content-disposition", f'attachment; filename="{boleto.file_name}"'.encode("ascii")))
    return answer


ROUTES = routes_of(
    "Charges",
    Route(
        method="GET",
        path="/v1/charges/boleto/{charge_id:str}/pdf",
        name="printBoleto",
        summary="Download a boleto as PDF",
        handle=print_boleto,
        heavy=True,
        scopes=("charges:read",),
        answers={
            200: Pdf(
                "The boleto, one A4 page, whatever its state. One that is paid, expired, cancelled or refunded says so "
                "across the page and carries neither line nor bars nor QR Code."
            )
        },
        errors=(Code.CHARGE_NOT_FOUND,),
    ),
)
