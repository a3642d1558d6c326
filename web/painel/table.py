"""Every page of the dashboard and every form in it: where it is, which roles open it, and what the menu calls it,
in the menu's order. There is no other way in."""

from typing import Final

from litestar.types import ControllerRouterHandler

from domain.mode import Mode
from web.painel import overview
from web.painel.auth import access, sign_in
from web.painel.auth.sign_in import entry_handlers
from web.painel.charges import changes, charge_list, charge_page, new_charge, sandbox, schedules
from web.painel.money import money, refunds, withdrawals
from web.painel.route import CREDENTIALS, DELIVERIES, EVERYBODY, MONEY, OWNER, PEOPLE, PROGRAMS, Page, handlers
from web.painel.section import PAINEL
from web.painel.settings import audit, company, deliveries, requests, team, tokens, webhooks

TEST: Final = Mode.SANDBOX

# fmt: off
TABLE: Final[tuple[Page, ...]] = (
    Page("GET",  "",                                  overview.show,            EVERYBODY, menu="Início"),
    Page("GET",  "/cobrancas",                        charge_list.LIST.show,    EVERYBODY, menu="Cobranças"),
    Page("GET",  "/cobrancas.csv",                    charge_list.LIST.csv,     EVERYBODY),
    Page("GET",  "/cobrancas/nova",                   new_charge.show,          PEOPLE),
    Page("POST", "/cobrancas/nova",                   new_charge.create,        PEOPLE),
    Page("GET",  "/cobrancas/{charge_id:str}",        charge_page.show,         EVERYBODY),
    Page("GET",  "/cobrancas/{charge_id:str}/boleto.pdf", charge_page.show_boleto,  PEOPLE),
    Page("POST", "/cobrancas/{charge_id:str}/cancelar", changes.cancel,           PEOPLE),
    Page("POST", "/cobrancas/{charge_id:str}/vencimento", changes.redate,           PEOPLE),
    Page("POST", "/cobrancas/{charge_id:str}/email",  changes.send_mail,        PEOPLE),
    Page("GET",  "/cobrancas/{charge_id:str}/devolver", changes.show_refund,      MONEY),
    Page("POST", "/cobrancas/{charge_id:str}/devolver", changes.refund,           MONEY),
    Page("GET",  "/programacoes",                     schedules.LIST.show,      PEOPLE, menu="Programadas"),
    Page("GET",  "/programacoes/nova",                schedules.show_new,       MONEY),
    Page("POST", "/programacoes/nova",                schedules.create,         MONEY),
    Page("GET",  "/programacoes/{schedule_id:str}",   schedules.show,           PEOPLE),
    Page("POST", "/programacoes/{schedule_id:str}/pausar", schedules.pause,          MONEY),
    Page("POST", "/programacoes/{schedule_id:str}/retomar", schedules.resume,         MONEY),
    Page("POST", "/programacoes/{schedule_id:str}/cancelar", schedules.cancel,         MONEY),
    Page("GET",  "/pagamentos",                       money.PAYMENTS.show,      PEOPLE, menu="Pagamentos"),
    Page("GET",  "/pagamentos.csv",                   money.PAYMENTS.csv,       PEOPLE),
    Page("GET",  "/devolucoes",                       refunds.LIST.show,        PEOPLE, menu="Devoluções"),
    Page("GET",  "/devolucoes.csv",                   refunds.LIST.csv,         PEOPLE),
    Page("GET",  "/extrato",                          money.show_ledger,        MONEY, menu="Extrato"),
    Page("GET",  "/extrato.csv",                      money.LEDGER.csv,         MONEY),
    Page("GET",  "/extrato/dias",                     money.show_closings,      MONEY),
    Page("GET",  "/saques",                           withdrawals.show,         MONEY, menu="Saques"),
    Page("POST", "/saques",                           withdrawals.ask,          MONEY),
    Page("GET",  "/saques.csv",                       withdrawals.LIST.csv,     MONEY),
    Page("POST", "/saques/{withdrawal_id:str}/cancelar", withdrawals.cancel,       MONEY),
    Page("POST", "/saques/automatico",                withdrawals.switch_on,    OWNER),
    Page("POST", "/saques/automatico/desligar",       withdrawals.switch_off,   OWNER),
    Page("GET",  "/webhooks",                         webhooks.show,            PROGRAMS, menu="Webhooks"),
    Page("POST", "/webhooks",                         webhooks.register,        PROGRAMS),
    Page("POST", "/webhooks/endereco",                webhooks.move,            PROGRAMS),
    Page("POST", "/webhooks/segredo",                 webhooks.rotate,          PROGRAMS),
    Page("POST", "/webhooks/segredo-antigo",          webhooks.end_previous,    PROGRAMS),
    Page("POST", "/webhooks/eventos",                 webhooks.choose,          PROGRAMS),
    Page("POST", "/webhooks/remover",                 webhooks.remove,          PROGRAMS),
    Page("POST", "/webhooks/retomar",                 webhooks.go_on,           PROGRAMS),
    Page("GET",  "/webhooks/entregas",                deliveries.show_list,     DELIVERIES),
    Page("POST", "/webhooks/entregas",                deliveries.send_range_again, PROGRAMS),
    Page("GET",  "/webhooks/entregas/{delivery_id:str}", deliveries.show,          DELIVERIES),
    Page("POST", "/webhooks/entregas/{delivery_id:str}/reenviar", deliveries.send_again,    PROGRAMS),
    Page("GET",  "/tokens",                           tokens.show_list,         CREDENTIALS, menu="Credenciais"),
    Page("POST", "/tokens",                           tokens.create,            CREDENTIALS),
    Page("GET",  "/tokens/{client_id:str}",           tokens.show,              CREDENTIALS),
    Page("POST", "/tokens/{client_id:str}/trocar",    tokens.rotate,            CREDENTIALS),
    Page("POST", "/tokens/{client_id:str}/revogar",   tokens.revoke,            CREDENTIALS),
    Page("GET",  "/requisicoes",                      requests.show_list,       PROGRAMS, menu="Requisições"),
    Page("GET",  "/requisicoes/{request_id:str}",     requests.show,            PROGRAMS),
    Page("GET",  "/pessoas",                          team.show,                OWNER, menu="Pessoas"),
    Page("POST", "/pessoas",                          team.add,                 OWNER),
    Page("POST", "/pessoas/perfil",                   team.set_role,            OWNER),
    Page("POST", "/pessoas/convite",                  team.invite_again,        OWNER),
    Page("POST", "/pessoas/convite/retirar",          team.take_back,           OWNER),
    Page("POST", "/pessoas/acesso",                   team.send_link,           OWNER),
    Page("POST", "/pessoas/remover",                  team.remove,              OWNER),
    Page("POST", "/pessoas/credenciais",              team.revoke_known,        OWNER),
    Page("GET",  "/empresa",                          company.show,             EVERYBODY, menu="Empresa"),
    Page("POST", "/empresa/endereco",                 company.change_address,   OWNER),
    Page("GET",  "/auditoria",                        audit.LIST.show,          OWNER, menu="Auditoria"),
    Page("GET",  "/acesso",                           access.show,              EVERYBODY),
    Page("POST", "/acesso/senha",                     access.set_password,      EVERYBODY),
    Page("GET",  "/acesso/codigo",                    access.show_factor,       EVERYBODY),
    Page("POST", "/acesso/codigo",                    access.turn_on,           EVERYBODY),
    Page("POST", "/acesso/codigo/desligar",           access.turn_off,          EVERYBODY),
    Page("POST", "/sair",                             sign_in.leave,            EVERYBODY),
    Page("POST", "/sair-de-tudo",                     sign_in.leave_everywhere, EVERYBODY),
    # The test section: the same account with the simulated bank, and no balance.
    Page("GET",  "",                                  charge_list.LIST.show,    EVERYBODY, TEST),
    Page("GET",  "/cobrancas",                        charge_list.LIST.show,    EVERYBODY, TEST, "Cobranças de teste"),
    Page("GET",  "/cobrancas.csv",                    charge_list.LIST.csv,     EVERYBODY, TEST),
    Page("GET",  "/cobrancas/nova",                   new_charge.show,          EVERYBODY, TEST),
    Page("POST", "/cobrancas/nova",                   new_charge.create,        EVERYBODY, TEST),
    Page("GET",  "/cobrancas/{charge_id:str}",        charge_page.show,         EVERYBODY, TEST),
    Page("GET",  "/cobrancas/{charge_id:str}/boleto.pdf", charge_page.show_boleto,  EVERYBODY, TEST),
    Page("POST", "/cobrancas/{charge_id:str}/cancelar", changes.cancel,           EVERYBODY, TEST),
    Page("POST", "/cobrancas/{charge_id:str}/vencimento", changes.redate,           EVERYBODY, TEST),
    Page("GET",  "/cobrancas/{charge_id:str}/devolver", changes.show_refund,      EVERYBODY, TEST),
    Page("POST", "/cobrancas/{charge_id:str}/devolver", changes.refund,           EVERYBODY, TEST),
    Page("POST", "/cobrancas/{charge_id:str}/pagar",  changes.pay_in_test,      EVERYBODY, TEST),
    Page("POST", "/cobrancas/{charge_id:str}/pagar-como", sandbox.pay,              EVERYBODY, TEST),
    Page("POST", "/cobrancas/{charge_id:str}/expirar", sandbox.expire,           EVERYBODY, TEST),
    Page("POST", "/cobrancas/{charge_id:str}/falhar", sandbox.fail,             EVERYBODY, TEST),
    Page("GET",  "/pagamentos",                       money.PAYMENTS.show,      EVERYBODY, TEST, "Pagamentos de teste"),
    Page("GET",  "/pagamentos.csv",                   money.PAYMENTS.csv,       EVERYBODY, TEST),
    Page("GET",  "/devolucoes",                       refunds.LIST.show,        EVERYBODY, TEST, "Devoluções de teste"),
    Page("GET",  "/devolucoes.csv",                   refunds.LIST.csv,         EVERYBODY, TEST),
    Page("GET",  "/webhooks/entregas",                deliveries.show_list,     DELIVERIES, TEST, "Entregas de teste"),
    Page("POST", "/webhooks/entregas",                deliveries.send_range_again, PROGRAMS, TEST),
    Page("GET",  "/webhooks/entregas/{delivery_id:str}", deliveries.show,          DELIVERIES, TEST),
    Page("POST", "/webhooks/entregas/{delivery_id:str}/reenviar", deliveries.send_again,    PROGRAMS, TEST),
    Page("GET",  "/tokens",                           tokens.show_list,         PROGRAMS, TEST, "Credenciais de teste"),
    Page("POST", "/tokens",                           tokens.create,            PROGRAMS, TEST),
    Page("GET",  "/tokens/{client_id:str}",           tokens.show,              PROGRAMS, TEST),
    Page("POST", "/tokens/{client_id:str}/trocar",    tokens.rotate,            PROGRAMS, TEST),
    Page("POST", "/tokens/{client_id:str}/revogar",   tokens.revoke,            PROGRAMS, TEST),
    Page("GET",  "/requisicoes",                      requests.show_list,       PROGRAMS, TEST, "Requisições de teste"),
    Page("GET",  "/requisicoes/{request_id:str}",     requests.show,            PROGRAMS, TEST),
    Page("GET",  "/relogio",                          sandbox.show_clock,       EVERYBODY, TEST, "Relógio do teste"),
    Page("POST", "/relogio",                          sandbox.advance,          EVERYBODY, TEST),
    Page("POST", "/webhooks/retomar",                 webhooks.go_on,           PROGRAMS, TEST),
    Page("POST", "/webhooks/testar",                  webhooks.try_out,         PROGRAMS, TEST),
)
# fmt: on

PAINEL_HANDLERS: list[ControllerRouterHandler] = [*entry_handlers(PAINEL), *handlers(TABLE)]
