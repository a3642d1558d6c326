"""Every page of the staff's section and every form in it. There is no other way in."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from litestar.response import Response
from litestar.types import ControllerRouterHandler

from web.painel.auth import access, sign_in
from web.painel.auth.sign_in import entry_handlers
from web.painel.charges import postal_code
from web.painel.page_request import PageRequest
from web.painel.route import STAFF, Page, handlers
from web.painel.section import PLATAFORMA
from web.painel.settings import audit
from web.plataforma import (
    anomalies,
    bank_calls,
    held_refunds,
    merchants,
    overview,
    partners,
    payers,
    payout_key,
    registration,
    search,
    stuck,
    suspense,
)
from web.plataforma.cells import choice
from web.plataforma.merchant import review, webhooks
from web.plataforma.reports import pages as reports


def _page(
    method: Literal["GET", "POST"],
    path: str,
    handle: Callable[[PageRequest], Awaitable[Response[Any]]],
    *,
    early: bool = False,
    menu: str = "",
) -> Page:
    return Page(method, path, handle, STAFF, section=PLATAFORMA, early=early, menu=menu)


# fmt: off
TABLE: Final[tuple[Page, ...]] = (
    _page("GET",  "",                                    overview.show, menu="Início"),
    _page("POST", "/pix/suspender",                      overview.suspend),
    _page("POST", "/pix/retomar",                        overview.resume),
    _page("GET",  "/busca",                              search.show, menu="Procurar"),
    _page("POST", "/busca",                              search.search),
    _page("GET",  "/lojas",                              merchants.LIST.show, menu="Lojas"),
    _page("GET",  "/lojas/nova",                         registration.show_new),
    _page("POST", "/lojas/nova",                         registration.create),
    _page("GET",  "/cep/{cep:str}",                      postal_code.show),
    _page("GET",  "/lojas/{account_id:str}",             merchants.show),
    _page("GET",  "/lojas/{account_id:str}/dados",       registration.show_edit),
    _page("POST", "/lojas/{account_id:str}/dados",       registration.edit),
    _page("POST", "/lojas/{account_id:str}/limites",     registration.set_limits),
    _page("POST", "/lojas/{account_id:str}/acesso",      registration.send_link),
    _page("POST", "/lojas/{account_id:str}/cadastro",    merchants.decide),
    _page("POST", "/lojas/{account_id:str}/conferencia", review.check),
    _page("POST", "/lojas/{account_id:str}/conferencia/desmarcar", review.uncheck),
    _page("POST", "/lojas/{account_id:str}/observacoes", review.note),
    _page("POST", "/lojas/{account_id:str}/devolucoes/liberar", merchants.free),
    _page("POST", "/lojas/{account_id:str}/devolucoes/prender", merchants.bind),
    _page("POST", "/lojas/{account_id:str}/chave",       payout_key.ask_for_another),
    _page("POST", "/lojas/{account_id:str}/chave/confirmar", payout_key.confirm),
    _page("POST", "/lojas/{account_id:str}/chave/cancelar", payout_key.cancel),
    _page("GET",  "/lojas/{account_id:str}/pagador",     payers.show),
    _page("POST", "/lojas/{account_id:str}/pagador/arquivo", payers.download),
    _page("POST", "/lojas/{account_id:str}/pagador/apagar", payers.erase),
    _page("POST", "/lojas/{account_id:str}/webhook/retomar", webhooks.go_on),
    _page("POST", "/lojas/{account_id:str}/webhook/reenviar", webhooks.send_range_again),
    _page("POST", "/lojas/{account_id:str}/webhook/entregas/{delivery_id:str}/reenviar", stuck.redeliver_one),
    _page("GET",  "/pendencias",                         stuck.show, menu="Pendências"),
    _page("POST", "/pendencias/pedidos/{order_id:str}/tentar", stuck.retry),
    _page("GET",  "/divergencias",                       anomalies.show, menu="Divergências"),
    _page("GET",  "/a-identificar",                      suspense.show_list, menu="A identificar"),
    _page("GET",  "/a-identificar/{suspense_id:str}",    suspense.show),
    _page("POST", "/a-identificar/{suspense_id:str}/atribuir", suspense.assign),
    _page("POST", "/a-identificar/{suspense_id:str}/devolver", suspense.give_back),
    _page("GET",  "/devolucoes",                         held_refunds.show_list, menu="Devoluções retidas"),
    _page("GET",  "/devolucoes/{refund_id:str}",         held_refunds.show),
    _page("POST", "/devolucoes/{refund_id:str}/liberar", held_refunds.release),
    _page("POST", "/devolucoes/{refund_id:str}/recusar", held_refunds.refuse),
    _page("GET",  "/parceiros",                          partners.show_list, menu="Parceiros"),
    _page("POST", "/parceiros",                          partners.create),
    _page("POST", "/parceiros/{code:str}",               partners.change),
    _page("POST", "/parceiros/{code:str}/confirmar",     partners.confirm),
    _page("POST", "/parceiros/{code:str}/retirar",       partners.withdraw),
    _page("GET",  "/relatorios",                         reports.show_list, menu="Relatórios"),
    _page("GET",  "/relatorios/{name:str}",              reports.show),
    _page("GET",  "/relatorios/{name:str}/arquivo",      reports.download),
    _page("GET",  "/banco",                              bank_calls.show, menu="Banco"),
    _page("GET",  "/equipe",                             overview.show_staff, menu="Equipe"),
    _page("GET",  "/auditoria",                          audit.LIST.show, menu="Auditoria"),
    _page("GET",  "/celula",                             choice.show),
    _page("POST", "/celula",                             choice.choose),
    _page("GET",  "/acesso",                             access.show,         early=True),
    _page("POST", "/acesso/senha",                       access.set_password, early=True),
    _page("GET",  "/acesso/codigo",                      access.show_factor,  early=True),
    _page("POST", "/acesso/codigo",                      access.turn_on,      early=True),
    _page("POST", "/acesso/codigo/desligar",             access.turn_off),
    _page("POST", "/sair",                               sign_in.leave,            early=True),
    _page("POST", "/sair-de-tudo",                       sign_in.leave_everywhere, early=True),
)
# fmt: on

PLATAFORMA_HANDLERS: list[ControllerRouterHandler] = [*entry_handlers(PLATAFORMA), *handlers(TABLE)]
