"""Every page and form of the staff's section: its path, the roles that open it, and its name in the menu. Signed-in
staff reach no page that is not in this table.
"""

from functools import partial
from typing import Final

from litestar.types import ControllerRouterHandler

from web.painel.auth import access, sign_in
from web.painel.auth.sign_in import entry_handlers
from web.painel.charges import postal_code
from web.painel.route import ADMIN, FINANCE, LOGO_FORM_MAX, OFFICE, OPERATIONS, STAFF, Page, handlers
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
    team,
)
from web.plataforma.cells import choice
from web.plataforma.merchant import fees, logo, merchant_list, review, webhooks
from web.plataforma.reports import pages as reports

_page: Final = partial(Page, section=PLATAFORMA)

# fmt: off
TABLE: Final[tuple[Page, ...]] = (
    _page("GET",  "",                                    overview.show,              STAFF, menu="Início"),
    _page("POST", "/pix/suspender",                      overview.suspend,           OPERATIONS),
    _page("POST", "/pix/retomar",                        overview.resume,            OPERATIONS),
    _page("GET",  "/busca",                              search.show,                STAFF, menu="Procurar"),
    _page("POST", "/busca",                              search.search,              STAFF),
    _page("GET",  "/lojas",                              merchant_list.show,         STAFF, menu="Lojas"),
    _page("GET",  "/lojas/nova",                         registration.show_new,      OPERATIONS),
    _page("POST", "/lojas/nova",                         registration.create,        OPERATIONS),
    _page("GET",  "/cep/{cep:str}",                      postal_code.show,           OPERATIONS),
    _page("GET",  "/lojas/{account_id:str}",             merchants.show,             STAFF),
    _page("GET",  "/lojas/{account_id:str}/dados",       registration.show_edit,     OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/dados",       registration.edit,          OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/limites",     registration.set_limits,    OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/tarifas",     fees.agree,                 FINANCE),
    _page("POST", "/lojas/{account_id:str}/tarifas/padrao", fees.take_default,           FINANCE),
    _page("POST", "/lojas/{account_id:str}/acesso",      registration.send_link,     OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/cadastro",    merchants.decide,           OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/conferencia", review.check,               OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/conferencia/desmarcar", review.uncheck,             OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/observacoes", review.note,                OFFICE),
    _page("POST", "/lojas/{account_id:str}/logotipo",    logo.change,                OPERATIONS, upload=LOGO_FORM_MAX),
    _page("POST", "/lojas/{account_id:str}/logotipo/remover", logo.remove,           OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/devolucoes/liberar", merchants.free,             FINANCE),
    _page("POST", "/lojas/{account_id:str}/devolucoes/prender", merchants.bind,             FINANCE),
    _page("POST", "/lojas/{account_id:str}/chave",       payout_key.ask_for_another, FINANCE),
    _page("POST", "/lojas/{account_id:str}/chave/confirmar", payout_key.confirm,         FINANCE),
    _page("POST", "/lojas/{account_id:str}/chave/cancelar", payout_key.cancel,          FINANCE),
    _page("GET",  "/lojas/{account_id:str}/pagador",     payers.show,                OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/pagador/arquivo", payers.download,            OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/pagador/apagar", payers.erase,               OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/webhook/retomar", webhooks.go_on,             OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/webhook/reenviar", webhooks.send_range_again,  OPERATIONS),
    _page("POST", "/lojas/{account_id:str}/webhook/entregas/{delivery_id:str}/reenviar",
                                                         stuck.redeliver_one,        OPERATIONS),
    _page("GET",  "/pendencias",                         stuck.show,                 STAFF, menu="Pendências"),
    _page("POST", "/pendencias/pedidos/{order_id:str}/tentar", stuck.retry,                OPERATIONS),
    _page("GET",  "/divergencias",                       anomalies.show,             STAFF, menu="Divergências"),
    _page("GET",  "/a-identificar",                      suspense.show_list,         STAFF, menu="A identificar"),
    _page("GET",  "/a-identificar/{suspense_id:str}",    suspense.show,              STAFF),
    _page("POST", "/a-identificar/{suspense_id:str}/atribuir", suspense.assign,            OPERATIONS),
    _page("POST", "/a-identificar/{suspense_id:str}/devolver", suspense.give_back,         OPERATIONS),
    _page("GET", "/devolucoes", held_refunds.show_list, FINANCE, menu="Devoluções retidas"),
    _page("GET",  "/devolucoes/{refund_id:str}",         held_refunds.show,          FINANCE),
    _page("POST", "/devolucoes/{refund_id:str}/liberar", held_refunds.release,       FINANCE),
    _page("POST", "/devolucoes/{refund_id:str}/recusar", held_refunds.refuse,        FINANCE),
    _page("GET",  "/parceiros",                          partners.show_list,         FINANCE, menu="Parceiros"),
    _page("POST", "/parceiros",                          partners.create,            FINANCE),
    _page("POST", "/parceiros/{code:str}",               partners.change,            FINANCE),
    _page("POST", "/parceiros/{code:str}/confirmar",     partners.confirm,           FINANCE),
    _page("POST", "/parceiros/{code:str}/retirar",       partners.withdraw,          FINANCE),
    _page("GET",  "/relatorios",                         reports.show_list,          OFFICE, menu="Relatórios"),
    _page("GET",  "/relatorios/{name:str}",              reports.show,               OFFICE),
    _page("GET",  "/relatorios/{name:str}/arquivo",      reports.download,           OFFICE),
    _page("GET",  "/relatorios/{name:str}/planilha",     reports.download_sheet,     OFFICE),
    _page("GET",  "/banco",                              bank_calls.show,            STAFF, menu="Banco"),
    _page("GET",  "/equipe",                             team.show,                  ADMIN, menu="Equipe"),
    _page("POST", "/equipe",                             team.add,                   ADMIN),
    _page("POST", "/equipe/perfil",                      team.set_role,              ADMIN),
    _page("POST", "/equipe/acesso",                      team.send_link,             ADMIN),
    _page("POST", "/equipe/remover",                     team.remove,                ADMIN),
    _page("GET",  "/auditoria",                          audit.LIST.show,            ADMIN, menu="Auditoria"),
    _page("GET",  "/celula",                             choice.show,                STAFF),
    _page("POST", "/celula",                             choice.choose,              STAFF),
    _page("GET",  "/acesso",                             access.show,                STAFF, early=True),
    _page("POST", "/acesso/senha",                       access.set_password,        STAFF, early=True),
    _page("GET",  "/acesso/codigo",                      access.show_factor,         STAFF, early=True),
    _page("POST", "/acesso/codigo",                      access.turn_on,             STAFF, early=True),
    _page("POST", "/acesso/codigo/desligar",             access.turn_off,            STAFF),
    _page("POST", "/sair",                               sign_in.leave,              STAFF, early=True),
    _page("POST", "/sair-de-tudo",                       sign_in.sign_out_everywhere,   STAFF, early=True),
)
# fmt: on

PLATAFORMA_HANDLERS: list[ControllerRouterHandler] = [*entry_handlers(PLATAFORMA), *handlers(TABLE)]
