"""The address of a postal code, for the scripts of forms; the forms are complete without it."""

import re
from typing import Any, Final

import msgspec
from litestar.exceptions import NotFoundException
from litestar.response import Response

from web.painel.page_request import PageRequest
from web.postal import PostalServiceAway

_DIGITS: Final = re.compile(r"[0-9]{8}")


async def show(request: PageRequest) -> Response[Any]:
    """Answers JSON with street, district, city and state. 404 for an unknown postal code, and without a service in the
    settings; 503 while the service does not answer."""
    digits, codes = request.text_of_path("cep"), request.context.postal_codes
    if not codes.on or _DIGITS.fullmatch(digits) is None:
        raise NotFoundException
    try:
        address = await codes.find(digits)
    except PostalServiceAway:
        return Response(b"{}", status_code=503, media_type="application/json")
    if address is None:
        return Response(b"{}", status_code=404, media_type="application/json")
    return Response(msgspec.json.encode(address), media_type="application/json")
