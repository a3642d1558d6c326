"""Every page of the dashboard and every form in it: where it is, and whose role opens it. There is no other way in."""

from typing import Final

from litestar.types import ControllerRouterHandler

from web.painel import charges, deliveries, entry, money, overview, people, tokens, webhooks
from web.painel.entry import ENTRY_HANDLERS
from web.painel.route import EVERYBODY, MONEY, OWNER, PEOPLE, PROGRAMS, Page, handlers

# fmt: off
TABLE: Final[tuple[Page, ...]] = (
    Page("GET",  "",                                     overview.show,              EVERYBODY),
    Page("GET",  "/cobrancas",                           charges.show_list,          EVERYBODY),
    Page("GET",  "/cobrancas/{charge_id:str}",           charges.show,               EVERYBODY),
    Page("POST", "/cobrancas/{charge_id:str}/cancelar",  charges.cancel,             PEOPLE),
    Page("GET",  "/pagamentos",                          money.show_payments,        PEOPLE),
    Page("GET",  "/extrato",                             money.show_ledger,          MONEY),
    Page("GET",  "/tokens",                              tokens.show_list,           PROGRAMS),
    Page("POST", "/tokens",                              tokens.create,              PROGRAMS),
    Page("GET",  "/tokens/{client_id:str}",              tokens.show,                PROGRAMS),
    Page("POST", "/tokens/{client_id:str}/trocar",       tokens.rotate,              PROGRAMS),
    Page("POST", "/tokens/{client_id:str}/revogar",      tokens.revoke,              PROGRAMS),
    Page("GET",  "/webhooks",                            webhooks.show,              PROGRAMS),
    Page("POST", "/webhooks",                            webhooks.register,          PROGRAMS),
    Page("POST", "/webhooks/endereco",                   webhooks.move,              PROGRAMS),
    Page("POST", "/webhooks/segredo",                    webhooks.rotate,            PROGRAMS),
    Page("POST", "/webhooks/segredo-antigo",             webhooks.end_previous,      PROGRAMS),
    Page("POST", "/webhooks/eventos",                    webhooks.choose,            PROGRAMS),
    Page("POST", "/webhooks/remover",                    webhooks.remove,            PROGRAMS),
    Page("POST", "/webhooks/retomar",                    webhooks.go_on,             PROGRAMS),
    Page("GET",  "/webhooks/entregas",                   deliveries.show_list,       PROGRAMS | {"support"}),
    Page("POST", "/webhooks/entregas",                   deliveries.send_range_again, PROGRAMS),
    Page("GET",  "/webhooks/entregas/{delivery_id:str}", deliveries.show,            PROGRAMS | {"support"}),
    Page("POST", "/webhooks/entregas/{delivery_id:str}/reenviar", deliveries.send_again, PROGRAMS),
    Page("GET",  "/acesso",                              people.show_access,         EVERYBODY),
    Page("GET",  "/auditoria",                           people.show_audit,          OWNER),
    Page("POST", "/sair",                                entry.leave,                EVERYBODY),
    Page("POST", "/sair-de-tudo",                        entry.leave_everywhere,     EVERYBODY),
    # The test section: the same account with the simulated bank, and no balance.
    Page("GET",  "",                                     charges.show_list,          EVERYBODY, test=True),
    Page("GET",  "/cobrancas",                           charges.show_list,          EVERYBODY, test=True),
    Page("GET",  "/cobrancas/{charge_id:str}",           charges.show,               EVERYBODY, test=True),
    Page("POST", "/cobrancas/{charge_id:str}/cancelar",  charges.cancel,             EVERYBODY, test=True),
    Page("POST", "/cobrancas/{charge_id:str}/pagar",     charges.pay_in_test,        EVERYBODY, test=True),
    Page("GET",  "/pagamentos",                          money.show_payments,        EVERYBODY, test=True),
    Page("GET",  "/tokens",                              tokens.show_list,           PROGRAMS,  test=True),
    Page("POST", "/tokens",                              tokens.create,              PROGRAMS,  test=True),
    Page("GET",  "/tokens/{client_id:str}",              tokens.show,                PROGRAMS,  test=True),
    Page("POST", "/tokens/{client_id:str}/trocar",       tokens.rotate,              PROGRAMS,  test=True),
    Page("POST", "/tokens/{client_id:str}/revogar",      tokens.revoke,              PROGRAMS,  test=True),
    Page("POST", "/webhooks/retomar",                    webhooks.go_on,             PROGRAMS,  test=True),
    Page("POST", "/webhooks/testar",                     webhooks.try_out,           PROGRAMS,  test=True),
    Page("GET",  "/webhooks/entregas",                   deliveries.show_list,       PROGRAMS | {"support"}, test=True),
    Page("POST", "/webhooks/entregas",                   deliveries.send_range_again, PROGRAMS, test=True),
    Page("GET",  "/webhooks/entregas/{delivery_id:str}", deliveries.show,            PROGRAMS | {"support"}, test=True),
    Page("POST", "/webhooks/entregas/{delivery_id:str}/reenviar", deliveries.send_again, PROGRAMS, test=True),
)
# fmt: on

PAINEL_HANDLERS: list[ControllerRouterHandler] = [*ENTRY_HANDLERS, *handlers(TABLE)]
