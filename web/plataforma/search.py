"""One box for the staff that finds a charge, its payments or a request over all accounts.

Read only. Each search is in the audit log with what it was found by and whose it was, without the text, which may be a
document.
"""

from typing import Any, Final

from litestar.response import Response

from readmodels.dashboard.staff_search import FOUND_MAX, search_everywhere
from web.painel.page_request import PageRequest

SEARCHED: Final = "platform.searched"
TEXT_MAX: Final = 255


async def show(request: PageRequest) -> Response[Any]:
    return request.show("plataforma/search.html", {"results": None, "text": "", "fault": ""})


async def search(request: PageRequest) -> Response[Any]:
    text = request.field("q")
    if not 0 < len(text) <= TEXT_MAX or not text.isprintable():
        values = {"results": None, "text": "", "fault": f"Escreva o que procurar, com até {TEXT_MAX} caracteres."}
        return request.show("plataforma/search.html", values, status=400)
    # Not as the role of reports, which sees no fingerprint.
    found = await request.reads.ask(lambda conn: search_everywhere(conn, text, blind=request.seal.blind))
    accounts = sorted({each.doc.account_id for each in found.charges})
    if found.request is not None:
        accounts = [str(found.request.account_id)]
    async with request.change(SEARCHED, found_by=found.by or "nothing", accounts=", ".join(accounts)):
        pass
    return request.show("plataforma/search.html", {"results": found, "text": text, "fault": "", "found_max": FOUND_MAX})
