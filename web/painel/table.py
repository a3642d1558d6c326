"""Every page of the dashboard and every form in it: where it is, and whose role opens it. There is no other way in."""

from typing import Final

from litestar.types import ControllerRouterHandler

from domain.mode import Mode
from web.painel import overview
from web.painel.auth import access, sign_in
from web.painel.auth.sign_in import entry_handlers
from web.painel.charges import changes, charge_list, charge_page, new_charge, sandbox, schedules
from web.painel.money import money, refunds, withdrawals
from web.painel.route import EVERYBODY, MONEY, OWNER, PEOPLE, PROGRAMS, Page, handlers
from web.painel.section import PAINEL
from web.painel.settings import audit, deliveries, requests, team, tokens, webhooks

# fmt: off
TABLE: Final[tuple[Page, ...]] = (
    Page("GET",  "",                                     overview.show,              EVERYBODY),
    Page("GET",  "/cobrancas",                           charge_list.LIST.show,          EVERYBODY),
    Page("GET",  "/cobrancas.csv",                       charge_list.LIST.csv,           EVERYBODY),
    Page("GET",  "/cobrancas/nova",                      new_charge.show,            PEOPLE),
    Page("POST", "/cobrancas/nova",                      new_charge.create,          PEOPLE),
    Page("GET",  "/cobrancas/{charge_id:str}",           charge_page.show,           EVERYBODY),
    Page("POST", "/cobrancas/{charge_id:str}/cancelar",  changes.cancel,      PEOPLE),
    Page("POST", "/cobrancas/{charge_id:str}/vencimento", changes.redate,     PEOPLE),
    Page("POST", "/cobrancas/{charge_id:str}/email",     changes.send_mail,   PEOPLE),
    Page("GET",  "/cobrancas/{charge_id:str}/devolver",  changes.show_refund, MONEY),
    Page("POST", "/cobrancas/{charge_id:str}/devolver",  changes.refund,      MONEY),
    Page("GET",  "/pagamentos",                          money.PAYMENTS.show,        PEOPLE),
    Page("GET",  "/pagamentos.csv",                      money.PAYMENTS.csv,         PEOPLE),
    Page("GET",  "/extrato",                             money.show_ledger,          MONEY),
    Page("GET",  "/saques",                              withdrawals.show,           MONEY),
    Page("POST", "/saques",                              withdrawals.ask,            MONEY),
    Page("GET",  "/saques.csv",                          withdrawals.LIST.csv,       MONEY),
    Page("POST", "/saques/{withdrawal_id:str}/cancelar", withdrawals.cancel,         MONEY),
    Page("POST", "/saques/automatico",                   withdrawals.switch_on,      OWNER),
    Page("POST", "/saques/automatico/desligar",          withdrawals.switch_off,     OWNER),
    Page("GET",  "/extrato.csv",                         money.LEDGER.csv,           MONEY),
    Page("GET",  "/extrato/dias",                        money.show_closings,        MONEY),
    Page("GET",  "/devolucoes",                          refunds.LIST.show,          PEOPLE),
    Page("GET",  "/devolucoes.csv",                      refunds.LIST.csv,           PEOPLE),
    Page("GET",  "/programacoes",                        schedules.show_list,        PEOPLE),
    Page("GET",  "/programacoes/nova",                   schedules.show_new,         MONEY),
    Page("POST", "/programacoes/nova",                   schedules.create,           MONEY),
    Page("GET",  "/programacoes/{schedule_id:str}",      schedules.show,             PEOPLE),
    Page("POST", "/programacoes/{schedule_id:str}/pausar", schedules.pause,          MONEY),
    Page("POST", "/programacoes/{schedule_id:str}/retomar", schedules.resume,        MONEY),
    Page("POST", "/programacoes/{schedule_id:str}/cancelar", schedules.cancel,       MONEY),
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
    Page("GET",  "/webhooks/entregas", deliveries.show_list, PROGRAMS | {"support"}),
    Page("POST", "/webhooks/entregas", deliveries.send_range_again, PROGRAMS),
    Page("GET",  "/webhooks/entregas/{delivery_id:str}", deliveries.show, PROGRAMS | {"support"}),
    Page("POST", "/webhooks/entregas/{delivery_id:str}/reenviar", deliveries.send_again, PROGRAMS),
    Page("GET",  "/acesso",                              access.show,                EVERYBODY),
    Page("POST", "/acesso/senha",                        access.set_password,        EVERYBODY),
    Page("GET",  "/acesso/codigo",                       access.show_factor,         EVERYBODY),
    Page("POST", "/acesso/codigo",                       access.turn_on,             EVERYBODY),
    Page("POST", "/acesso/codigo/desligar",              access.turn_off,            EVERYBODY),
    Page("GET",  "/pessoas",                             team.show,                  OWNER),
    Page("POST", "/pessoas",                             team.add,                   OWNER),
    Page("POST", "/pessoas/perfil",                      team.set_role,              OWNER),
    Page("POST", "/pessoas/acesso",                      team.reset,                 OWNER),
    Page("POST", "/pessoas/remover",                     team.remove,                OWNER),
    Page("GET",  "/requisicoes",                         requests.show_list,         PROGRAMS),
    Page("GET",  "/requisicoes/{request_id:str}",        requests.show,              PROGRAMS),
    Page("GET",  "/auditoria",                           audit.show_audit,          OWNER),
    Page("POST", "/sair",                                sign_in.leave,                EVERYBODY),
    Page("POST", "/sair-de-tudo",                        sign_in.leave_everywhere,     EVERYBODY),
    # The test section: the same account with the simulated bank, and no balance.
    Page("GET",  "",                                     charge_list.LIST.show,          EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/cobrancas",                           charge_list.LIST.show,          EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/cobrancas.csv",                       charge_list.LIST.csv,           EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/cobrancas/nova",                      new_charge.show,            EVERYBODY, Mode.SANDBOX),
    Page("POST", "/cobrancas/nova",                      new_charge.create,          EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/cobrancas/{charge_id:str}",           charge_page.show,           EVERYBODY, Mode.SANDBOX),
    Page("POST", "/cobrancas/{charge_id:str}/cancelar",  changes.cancel,      EVERYBODY, Mode.SANDBOX),
    Page("POST", "/cobrancas/{charge_id:str}/vencimento", changes.redate,     EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/cobrancas/{charge_id:str}/devolver",  changes.show_refund, EVERYBODY, Mode.SANDBOX),
    Page("POST", "/cobrancas/{charge_id:str}/devolver",  changes.refund,      EVERYBODY, Mode.SANDBOX),
    Page("POST", "/cobrancas/{charge_id:str}/pagar",     changes.pay_in_test, EVERYBODY, Mode.SANDBOX),
    Page("POST", "/cobrancas/{charge_id:str}/pagar-como", sandbox.pay,               EVERYBODY, Mode.SANDBOX),
    Page("POST", "/cobrancas/{charge_id:str}/expirar",   sandbox.expire,             EVERYBODY, Mode.SANDBOX),
    Page("POST", "/cobrancas/{charge_id:str}/falhar",    sandbox.fail,               EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/relogio",                             sandbox.show_clock,         EVERYBODY, Mode.SANDBOX),
    Page("POST", "/relogio",                             sandbox.advance,            EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/pagamentos",                          money.PAYMENTS.show,        EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/pagamentos.csv",                      money.PAYMENTS.csv,         EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/devolucoes",                          refunds.LIST.show,          EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/devolucoes.csv",                      refunds.LIST.csv,           EVERYBODY, Mode.SANDBOX),
    Page("GET",  "/tokens",                              tokens.show_list,           PROGRAMS,  Mode.SANDBOX),
    Page("POST", "/tokens",                              tokens.create,              PROGRAMS,  Mode.SANDBOX),
    Page("GET",  "/tokens/{client_id:str}",              tokens.show,                PROGRAMS,  Mode.SANDBOX),
    Page("POST", "/tokens/{client_id:str}/trocar",       tokens.rotate,              PROGRAMS,  Mode.SANDBOX),
    Page("POST", "/tokens/{client_id:str}/revogar",      tokens.revoke,              PROGRAMS,  Mode.SANDBOX),
    Page("GET",  "/requisicoes",                         requests.show_list,         PROGRAMS,  Mode.SANDBOX),
    Page("GET",  "/requisicoes/{request_id:str}",        requests.show,              PROGRAMS,  Mode.SANDBOX),
    Page("POST", "/webhooks/retomar",                    webhooks.go_on,             PROGRAMS,  Mode.SANDBOX),
    Page("POST", "/webhooks/testar",                     webhooks.try_out,           PROGRAMS,  Mode.SANDBOX),
    Page("GET", "/webhooks/entregas", deliveries.show_list, PROGRAMS | {"support"}, Mode.SANDBOX),
    Page("POST", "/webhooks/entregas", deliveries.send_range_again, PROGRAMS, Mode.SANDBOX),
    Page("GET", "/webhooks/entregas/{delivery_id:str}", deliveries.show, PROGRAMS | {"support"}, Mode.SANDBOX),
    Page("POST", "/webhooks/entregas/{delivery_id:str}/reenviar", deliveries.send_again, PROGRAMS, Mode.SANDBOX),
)
# fmt: on

PAINEL_HANDLERS: list[ControllerRouterHandler] = [*entry_handlers(PAINEL), *handlers(TABLE)]
