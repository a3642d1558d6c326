"""The printed boleto: GET /v1/charges/boleto/{charge_id}/pdf."""

from msgspec import Struct

from api.answers import Answer, Bytes
from api.charge_answers import charge_id_of
from api.context import ApiContext
from api.route import Call, Route, routes_of
from domain.errors import Code, required
from readmodels.charges.boleto import boleto_to_print
from runtime.postgres import session


class Pdf(Struct, frozen=True):
    """Marks an answer in the table of routes as a PDF file instead of JSON."""

    description: str


async def print_boleto(context: ApiContext, call: Call) -> Answer:
    """Answers with one A4 page, as an attachment named after the boleto's number at the bank.

    Every other id gets the same 404: malformed, unknown, another merchant's, of the other mode, or not a boleto. A
    boleto is printed in every status; one that must no longer be paid says so and carries no codes
    (readmodels/charges/boleto.py).
    """
    charge_id = charge_id_of(call)
    async with session(context.pool) as conn:
        found = await boleto_to_print(
            conn, charge_id, call.caller.owner, seal=context.seal, settings=context.settings, now=call.at
        )
    boleto = required(found, Code.CHARGE_NOT_FOUND)
    answer = Bytes(await context.printer.printed(boleto), b"application/pdf")
    # We made the file name, ASCII without blanks or quotes, so RFC 6266's plain `filename` suffices.
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
                "The boleto as one A4 page, in any status. A boleto that is paid, expired, cancelled or refunded has "
                "this written across the page, and shows no linha digitável, barcode or QR Code."
            )
        },
        errors=(Code.CHARGE_NOT_FOUND,),
    ),
)
