"""The staff's search: one field finds a charge, its payments, a request or a merchant, over all accounts and cells.

Read only. Each search is written to the audit log of each cell that was asked, with the kind of match and the accounts
found, but without the text, which may be a document.
"""

from typing import Any, Final
from uuid import uuid5

from litestar.response import Response

from commands.people.audit import write_audit_entry
from readmodels.dashboard.staff_search import FOUND_MAX, Results, search_everywhere
from runtime.postgres import transaction
from web.cells import CellPages
from web.painel.page_request import PageRequest
from web.plataforma.cells.ask import ask_cells

SEARCHED: Final = "platform.searched"
TEXT_MAX: Final = 255


async def show(request: PageRequest) -> Response[Any]:
    return _page(request)


async def search(request: PageRequest) -> Response[Any]:
    text = request.field("q")
    if not 0 < len(text) <= TEXT_MAX or not text.isprintable():
        return _page(request, fault=f"Escreva o que procurar, com até {TEXT_MAX} caracteres.")
    # Not with the reports' database role, which may not read fingerprints.
    if not request.cells:
        results = await request.reads.ask(lambda conn: search_everywhere(conn, text, blind=request.seal.blind))
        async with request.change(SEARCHED, **_match_facts(results)):
            pass
        return _page(request, text=text, answers=[(None, results)])

    async def search_cell(cell: CellPages) -> Results:
        results: Results = await cell.state.reads.ask(
            lambda conn: search_everywhere(conn, text, blind=request.seal.blind)
        )
        entry = request.entry(uuid5(request.form_id, cell.name), SEARCHED, **_match_facts(results))
        async with transaction(cell.state.people_pool) as conn:
            await write_audit_entry(conn, entry, now=request.now)
        return results

    outcome = await ask_cells(request.cells, search_cell)
    return _page(request, text=text, answers=outcome.answers, away=outcome.away)


def _match_facts(results: Results) -> dict[str, str]:
    accounts = sorted({each.doc.account_id for each in results.charges})
    if results.request is not None:
        accounts = [str(results.request.account_id)]
    elif not accounts:
        accounts = sorted(str(each.id) for each in results.merchants)
    return {"found_by": results.by or "nothing", "accounts": ", ".join(accounts)}


def _page(request: PageRequest, *, text: str = "", fault: str = "", **found: Any) -> Response[Any]:
    values = {"answers": None, "away": [], "text": text, "fault": fault, "found_max": FOUND_MAX, **found}
    return request.show("plataforma/search.html", values, status=400 if fault else 200)
