"""The slip on paper: GET /v1/charges/boleto/{charge_id}/pdf."""

from msgspec import Struct

from api.answers import Answer, Bytes
from api.door import Door
from api.query import path_id
from api.route import Call, Route
from domain.errors import Code, Refused
from readmodels.slip import slip_to_print
from runtime.postgres import session


class Pdf(Struct, frozen=True):
    """Stands in the table of routes for a body that is a file and not JSON."""

    description: str


async def print_slip(door: Door, call: Call) -> Answer:
    """One A4 page as an attachment named after the slip's number at the bank.

    What is no id, is unknown, of somebody else, of the other mode or no slip is one and the same 404. A slip is
    handed out in every state; one that is not to be paid any more says so and carries no codes (readmodels/slip.py).
    """
    charge_id = path_id(call.path("charge_id"))
    if charge_id is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    async with session(door.pool) as conn:
        slip = await slip_to_print(
            conn, charge_id, *call.caller.owner, seal=door.seal, settings=door.settings, now=call.at
        )
    if slip is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    answer = Bytes(await door.printer.printed(slip), b"application/pdf")
    # The name is ours, ASCII without blanks or quotes: RFC 6266's plain form says it all.
    answer.raw_headers.append((b"content-disposition", f'attachment; filename="{slip.file_name}"'.encode("ascii")))
    return answer


ROUTES = (
    Route(
        method="GET",
        path="/v1/charges/boleto/{charge_id:str}/pdf",
        name="printSlip",
        summary="Download a slip as PDF",
        tag="Charges",
        handle=print_slip,
        scopes=("charges:read",),
        answers={
            200: Pdf(
                "The slip, one A4 page, whatever its state. One that is paid, expired, cancelled or refunded says so "
                "across the page and carries neither line nor bars nor QR Code."
            )
        },
        errors=(Code.CHARGE_NOT_FOUND,),
    ),
)
