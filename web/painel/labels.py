"""The names that the dashboard shows to people, one table for each set of names."""

import re
from typing import Final

from commands.merchants.kyc import Kyc
from domain import payer
from domain.brazilian import amount
from domain.charge import Anomaly, Status
from domain.errors import Code
from domain.events import EventKind
from readmodels.documents import mail_letter, people_letter

# fmt: off
STATUS: Final[dict[str, str]] = {
    Status.PENDING: "Em aberto", Status.PAID: "Paga", Status.EXPIRED: "Vencida", Status.CANCELLED: "Cancelada",
    Status.REFUNDED: "Devolvida", Status.FAILED: "Não concluída",
}
STATUS_TABS: Final[dict[str, str]] = {
    Status.PENDING: "Em aberto", Status.PAID: "Pagas", Status.EXPIRED: "Vencidas", Status.CANCELLED: "Canceladas",
    Status.REFUNDED: "Devolvidas", Status.FAILED: "Não concluídas",
}
MONTHS: Final[tuple[str, ...]] = (
    "janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro", "novembro",
    "dezembro",
)
METHODS: Final[dict[str, str]] = {
    "pix": "Pix", "boleto": "Boleto", "boleto_hibrido": "Boleto com Pix", "boleto_pix": "Boleto e Pix",
}
ENTRY_TYPES: Final[dict[str, str]] = {
    "payment": "Pagamento recebido", "refund": "Devolução", "refund_reversal": "Devolução estornada",
    "withdrawal": "Saque", "withdrawal_reversal": "Saque estornado", "fee": "Tarifa",
    "partner_share": "Parte do parceiro", "adjustment": "Ajuste",
}
ANOMALIES: Final[dict[str, str]] = {
    Anomaly.DUPLICATE: "Pago em duplicidade", Anomaly.PAID_AFTER_CANCEL: "Pago depois de cancelado",
    Anomaly.AMOUNT_MISMATCH: "Valor diferente do cobrado",
}
KINDS: Final[dict[str, str]] = {
    EventKind.PAYMENT_RECEIVED: "Pagamento recebido", EventKind.CHARGE_CANCELLED: "Cobrança cancelada",
    EventKind.CHARGE_EXPIRED: "Cobrança vencida", EventKind.CHARGE_DUE_DATE_CHANGED: "Vencimento alterado",
    EventKind.CHARGE_FAILED: "Cobrança não concluída", EventKind.CHARGE_REFUNDED: "Cobrança devolvida por inteiro",
    EventKind.REFUND_SUCCEEDED: "Devolução concluída", EventKind.REFUND_FAILED: "Devolução recusada",
    EventKind.PAYMENT_ANOMALY: "Pagamento com divergência", EventKind.WITHDRAWAL_SUCCEEDED: "Saque concluído",
    EventKind.WITHDRAWAL_FAILED: "Saque recusado",
}
LIFE: Final[dict[str, str]] = {
    **KINDS, "fee.charged": "Tarifa cobrada", "refund.released": "Devolução liberada pela plataforma",
    "refund.created": "Devolução pedida", "payment.reversed": "O banco tomou de volta um pagamento",
    "suspense.assigned": "Pagamento identificado pela plataforma",
}
CHARGE_FAILURES: Final[dict[str, str]] = {
    "BANK_REFUSED": "O banco não aceitou a cobrança", "SANDBOX_FAILURE": "Falha pedida no ambiente de teste",
}
REFUND_STATES: Final[dict[str, str]] = {
    "pending": "Em andamento", "succeeded": "Concluída", "failed": "Recusada",
}
REFUND_FAILURES: Final[dict[str, str]] = {
    "BANK_REFUSED": "o banco não aceitou", "NOT_CARRIED_OUT": "o banco não conseguiu enviar",
    "TRANSFER_UNAVAILABLE": "o banco da conta não envia Pix por aqui",
    "NOT_RELEASED": "a plataforma não liberou",
}
WITHDRAWAL_STATES: Final[dict[str, str]] = {
    "pending": "Pedido", "processing": "No banco", "succeeded": "Concluído", "failed": "Recusado",
    "cancelled": "Cancelado",
}
MAIL_KINDS: Final[dict[str, str]] = {
    "charge": "E-mail com a cobrança", "before_due": "Lembrete antes do vencimento",
    "due_day": "Lembrete no dia do vencimento", "receipt": "E-mail com o comprovante",
    "asked": "E-mail enviado a pedido",
}
MAIL_STATES: Final[dict[str, str]] = {
    "waiting": "Na fila", "sending": "Sendo enviado", "sent": "Enviado", "failed": "Não pôde ser enviado",
    "skipped": "Não enviado",
}
FREQUENCIES: Final[dict[str, str]] = {
    "weekly": "Toda semana", "biweekly": "A cada duas semanas", "monthly": "Todo mês", "quarterly": "A cada três meses",
    "semiannual": "A cada seis meses", "yearly": "Todo ano",
}
SCHEDULE_STATES: Final[dict[str, str]] = {
    "active": "Ativa", "paused": "Pausada", "finished": "Terminada", "cancelled": "Cancelada",
}
NUMBER_STATES: Final[dict[str, str]] = {
    "issued": "Emitida", "skipped": "Pulada", "failed": "Não emitida",
}
DELIVERY_STATES: Final[dict[str, str]] = {
    "pending": "Na fila", "sending": "Sendo enviada", "delivered": "Entregue", "held": "Retida",
    "exhausted": "Tentativas esgotadas", "stuck": "Interrompida por falha nossa",
}
OUTCOMES: Final = mail_letter.OUTCOMES
LANES: Final[dict[str, str]] = {
    "idle": "Sem entregas ainda", "open": "Funcionando", "strained": "Funcionando, com falhas recentes",
    "broken": "Com falhas, tentando de novo", "paused": "Pausada",
}
# The same states where a page names the webhook, and not its deliveries.
WEBHOOKS: Final[dict[str, str]] = {**LANES, "broken": "Com falhas", "paused": "Pausado"}
PAUSED: Final[dict[str, str]] = {
    "no_success": "nenhuma entrega aceita por muito tempo", "gone": "seu servidor respondeu 410 (não existe mais)",
}
NOTICES: Final[dict[str, str]] = {
    "webhook_failing": "Entregas falhando", "webhook_paused": "Entregas pausadas",
    "webhook_recovered": "Entregas normalizadas",
}
KYC: Final[dict[str, str]] = {
    Kyc.PENDING: "Em análise", Kyc.APPROVED: "Aprovado", Kyc.REJECTED: "Recusado", Kyc.BLOCKED: "Bloqueado",
}
KYC_CHIPS: Final[dict[str, str]] = {
    Kyc.PENDING: "chip-warn", Kyc.APPROVED: "chip-paid", Kyc.REJECTED: "chip-expired", Kyc.BLOCKED: "chip-expired",
}
# What a registration may lack, and what each is needed for.
MISSING: Final[dict[str, str]] = {
    "document": "CNPJ válido",
    "address": "Endereço completo (rua, número, bairro, cidade, estado e CEP): os boletos o levam",
    "payout_key": "Chave Pix do dono da empresa: para ela vão os saques",
    "owner": "Um proprietário que já escolheu a senha, pelo link enviado ao e-mail dele",
}
ROLES: Final = people_letter.ROLES
STATES: Final = {each: each for each in sorted(payer.STATES)}
# Identifiers used by programs, banks and support: the name that people see, and what the identifier is for.
TERMS: Final[dict[str, tuple[str, str]]] = {
    "account_id": ("ID da conta", "Como a API e o suporte chamam a sua conta. Tenha-o à mão quando nos procurar."),
    "charge_id": ("ID da cobrança", "Como a API e o suporte chamam esta cobrança. Não muda nunca."),
    "client_id": ("ID da credencial", "Com que um programa se apresenta, junto do segredo. Sozinho não abre nada."),
    "delivery_id": ("ID da entrega", "O mesmo em todas as tentativas de uma entrega."),
    "endToEndId": (
        "ID da transação Pix", "O número que todo Pix recebe ao ser pago. Está no comprovante de quem pagou e no "
        "extrato do banco: por ele se acha o pagamento dos dois lados."),
    "event_id": ("ID do evento", "O mesmo no aviso enviado ao seu sistema e na consulta de eventos."),
    "nosso_numero": ("Nosso número", "O número do boleto no banco. Está impresso nele e no extrato da cobrança."),
    "payment_id": ("ID do pagamento", "Como a API e o suporte chamam um pagamento recebido."),
    "schedule_id": ("ID da programação", "Como a API e o suporte chamam esta programação."),
    "txid": ("ID do QR Code", "Como o banco chama o QR Code desta cobrança, antes e depois de pago."),
    "X-Request-Id": ("ID da requisição", "O número de uma chamada à API. Com ele o suporte acha o que houve."),
}
SCOPES: Final[dict[str, str]] = {
    "charges:create": "Criar, cancelar e alterar cobranças", "charges:read": "Consultar cobranças e boletos",
    "payments:read": "Consultar pagamentos, saldo e extrato", "refunds:create": "Devolver pagamentos",
    "withdrawals:create": "Pedir saques", "schedules:write": "Programar cobranças",
}
OVERLAPS: Final[dict[str, str]] = {
    "now": "Agora: o antigo e os tokens dele param já", "1h": "1 hora", "24h": "24 horas", "7d": "7 dias",
}
CANCEL_REASONS: Final[dict[str, str]] = {
    "cancelled": "Pedido da loja", "paid_externally": "Paga por outro meio",
}
ACTIONS: Final[dict[str, str]] = {
    "session.opened": "Entrou no painel", "session.ended": "Saiu do painel",
    "session.ended_everywhere": "Saiu de todos os dispositivos",
    "session.code_refused": "Acertou a senha e errou o código de acesso",
    "password.changed": "Trocou a própria senha",
    "totp.enrolled": "Ligou dois fatores", "totp.removed": "Desligou dois fatores",
    "password.chosen": "Escolheu a senha pelo link do e-mail",
    "password.recovered": "Trocou a senha pelo link do e-mail",
    "person.invited": "Convidou uma pessoa",
    "person.invitation_withdrawn": "Retirou um convite", "person.access_sent": "Enviou um link de acesso a uma pessoa",
    "person.factor_cleared": "Desligou os dois fatores de uma pessoa",
    "person.role_changed": "Mudou o perfil de uma pessoa",
    "person.removed": "Removeu uma pessoa",
    "staff.invited": "Convidou uma pessoa para a equipe",
    "staff.role_changed": "Mudou o perfil de uma pessoa da equipe",
    "staff.access_sent": "Enviou um link de acesso a uma pessoa da equipe",
    "staff.factor_cleared": "Desligou os dois fatores de uma pessoa da equipe",
    "staff.removed": "Removeu uma pessoa da equipe",
    "merchant.approved": "Aprovou um cadastro", "merchant.rejected": "Recusou um cadastro",
    "merchant.blocked": "Bloqueou um cadastro", "merchant.registered": "Cadastrou uma loja",
    "merchant.corrected": "Corrigiu um cadastro", "merchant.address_changed": "Mudou o endereço da empresa",
    "merchant.contact_changed": "Mudou o contato que os pagadores veem",
    "merchant.logo_changed": "Mudou o logotipo que os pagadores veem",
    "merchant.logo_removed": "Removeu o logotipo",
    "merchant.rate_changed": "Mudou os limites de uma loja", "merchant.pix_key_changed": "Trocou a chave Pix da conta",
    "platform.pix_key_set": "Definiu a chave Pix em que as cobranças são recebidas",
    "payout_key.asked": "Pediu outra chave para os saques",
    "payout_key.confirmed": "Confirmou a troca da chave dos saques",
    "payout_key.cancelled": "Cancelou a troca da chave dos saques",
    "merchant.item_checked": "Conferiu uma parte de um cadastro",
    "merchant.item_unchecked": "Desmarcou uma parte de um cadastro",
    "merchant.noted": "Escreveu uma observação sobre uma loja",
    "merchant.fees_set": "Mudou as tarifas de uma loja",
    "merchant.refunds_freed": "Liberou devoluções para outras pessoas que o pagador",
    "merchant.refunds_bound": "Prendeu de novo as devoluções ao pagador",
    "payment.anomaly_resolved": "Resolveu um pagamento com divergência",
    "refund.released": "Liberou uma devolução retida", "refund.refused": "Recusou uma devolução retida",
    "payer.erasure_asked": "Pediu para apagar os dados de um pagador",
    "payer.erased": "Apagou os dados de um pagador", "payer.exported": "Exportou os dados de um pagador",
    "pix.suspended": "Suspendeu o Pix avulso", "pix.resumed": "Retomou o Pix avulso",
    "suspense.assigned": "Atribuiu um valor a identificar",
    "suspense.returned": "Registrou uma devolução feita no banco",
    "integrator.created": "Criou um parceiro", "integrator.changed": "Alterou um parceiro",
    "integrator.share_proposed": "Propôs a participação de um parceiro",
    "integrator.share_confirmed": "Confirmou a participação de um parceiro",
    "integrator.share_withdrawn": "Retirou a proposta de participação de um parceiro",
    "platform.searched": "Procurou em todas as lojas", "cell.entered": "Passou a trabalhar em uma célula",
    "credential.created": "Criou uma credencial", "credential.rotated": "Trocou o segredo de uma credencial",
    "credential.revoked": "Revogou uma credencial",
    "webhook.registered": "Cadastrou o endereço do webhook", "webhook.moved": "Mudou o endereço do webhook",
    "webhook.rotated": "Trocou o segredo do webhook",
    "webhook.previous_revoked": "Encerrou o segredo antigo do webhook",
    "webhook.kinds_chosen": "Escolheu os eventos do webhook", "webhook.resumed": "Retomou as entregas",
    "webhook.removed": "Removeu o webhook", "webhook.tried": "Enviou um webhook de teste",
    "order.retried": "Tentou de novo um pedido ao banco",
    "webhook.redelivered": "Reenviou uma entrega", "webhook.range_redelivered": "Reenviou uma faixa de eventos",
    "charge.cancelled": "Cancelou uma cobrança", "charge.paid_in_test": "Simulou um pagamento",
    "charge.expired_in_test": "Expirou uma cobrança de teste",
    "charge.failed_in_test": "Fez uma cobrança de teste falhar",
    "sandbox.clock_advanced": "Adiantou o relógio do teste",
    # Changes of a boleto are logged when the bank is asked; the bank's answer appears in the history of the charge.
    "boleto.write_off_ordered": "Pediu a baixa de um boleto",
    "boleto.test_payment_ordered": "Pediu a simulação do pagamento de um boleto",
    "boleto.redate_ordered": "Pediu outro vencimento para um boleto",
    "second_copy.answered": "Respondeu a um pedido de 2ª via", "second_copy.dismissed": "Dispensou um pedido de 2ª via",
    "charge.created": "Criou uma cobrança", "boleto.ordered": "Pediu o registro de um boleto",
    "withdrawal.asked": "Pediu um saque", "withdrawal.cancelled": "Cancelou um saque",
    "withdrawal.daily_set": "Ligou ou alterou o saque automático",
    "withdrawal.daily_ended": "Desligou o saque automático",
    "refund.asked": "Pediu uma devolução", "mail.asked": "Enviou uma cobrança por e-mail",
    "schedule.created": "Programou cobranças", "schedule.paused": "Pausou uma programação",
    "schedule.resumed": "Retomou uma programação", "schedule.cancelled": "Cancelou uma programação",
}
# Names for the facts of an action, and for those of their values that no person typed.
FACTS: Final[dict[str, str]] = {
    "cell": "célula", "staff_of": "equipe da célula", "account_id": "conta", "cnpj": "CNPJ",
    "person": "pessoa", "name": "nome", "per_second": "por segundo", "burst": "de uma vez",
    "seconds": "segundos", "charges": "cobranças", "schedules": "programações", "destination": "destino",
    "test": "ambiente", "overlap": "segredo antigo por", "kinds": "eventos", "reason": "motivo", "first": "do número",
    "last": "até o número", "with": "com", "role": "perfil", "share": "participação (%)",
    "active": "ativo", "amount": "valor em reais", "due_date": "vencimento", "method": "forma",
    "charge_id": "cobrança", "reference": "referência", "refund": "devolução", "note": "observação",
    "found_by": "encontrado por", "delivery": "entrega", "item": "parte", "accounts": "lojas",
    "fees": "tarifas", "fee_pix": "tarifa por Pix", "fee_boleto": "tarifa por boleto",
    "fee_withdrawal": "tarifa por saque", "host": "endereço",
    "keep": "fica no saldo (R$)", "logo": "imagem", "pix_key": "chave Pix", "pix_key_before": "antes",
}
FACT_VALUES: Final[dict[str, str]] = {
    "charge": "cobrança", "payment": "ID da transação Pix", "link": "link", "number": "nosso número",
    "payer": "pagador", "nothing": "nada encontrado",
    "company": "empresa", "address": "endereço", "people": "pessoas", "payout_key": "chave dos saques",
    "activity": "atividade",
    "recovery": "código de recuperação", **ROLES, **METHODS,
    "True": "teste", "False": "produção", "now": "nenhum tempo", "1h": "1 hora", "24h": "24 horas", "7d": "7 dias",
    "cancelled": "pedido da loja", "paid_externally": "paga por outro meio",
}
_DECIMAL: Final = re.compile(r"(\d+)\.(\d\d)")


def fact_value(value: str) -> str:
    """Returns a fact's value as people read it: an amount has a decimal comma."""
    decimal = _DECIMAL.fullmatch(value)
    return amount(int(decimal[1] + decimal[2])) if decimal else FACT_VALUES.get(value, value)


DONE: Final[dict[str, str]] = {
    "senha": "Senha trocada. Suas outras sessões terminaram.",
    "fator-desligado": "Dois fatores desligados.",
    "convite": "Convite na fila de e-mails. Quem o recebe escolhe a própria senha.",
    "convite-retirado": "Convite retirado. O link dele não vale mais.",
    "link-enviado": "Link na fila de e-mails. Com ele a pessoa escolhe a própria senha.",
    "perfil": "Perfil alterado.", "pessoa-removida": "Pessoa removida. As sessões dela terminaram.",
    "loja": "Loja cadastrada, em análise. O link para a senha vai ao e-mail do proprietário.",
    "dados": "Cadastro corrigido.", "limites": "Limites alterados. Valem em toda parte em até 3 segundos.",
    "tarifas": "Tarifas alteradas. Valem para o que for confirmado a partir de agora.",
    "endereco-empresa": "Endereço alterado. Os próximos boletos o levam.",
    "cadastro": "Decisão registrada. Ela vale em toda parte em até 3 segundos.",
    "conferido": "Conferência registrada.", "desmarcado": "Conferência desmarcada.", "anotado": "Observação guardada.",
    "devolucoes-livres": "Liberado. Vale para as devoluções pedidas a partir de agora.",
    "devolucoes-presas": "Devoluções só para o pagador de novo.",
    "chave-pedida": "Troca pedida. Ela vale daqui a 24 horas, se ninguém a cancelar.",
    "chave-cancelada": "Troca cancelada. Os saques continuam indo para a mesma chave.",
    "chave-confirmada": "Troca confirmada. Ela vale daqui a 24 horas, se ninguém a cancelar.",
    "chave-da-loja": "Troca pedida. Outra pessoa da equipe precisa confirmar.",
    "devolucao-liberada": "Devolução liberada. Ela segue para o banco em instantes.",
    "devolucao-recusada": "Devolução recusada. O valor voltou ao saldo da loja.",
    "pagador-apagado": "Dados do pagador apagados. Valores, extrato e eventos ficam como estavam.",
    "pix-suspenso": "Pix avulso suspenso em produção.", "pix-retomado": "Pix avulso retomado.",
    "parceiro": "Parceiro alterado.",
    "parceiro-proposto": "Participação proposta. Ela vale quando outra pessoa da equipe confirmar.",
    "atribuido": "Valor atribuído. A loja recebeu o crédito e será avisada.",
    "devolvido-no-banco": "Devolução registrada.",
    "revogada": "Credencial revogada. Ela e os tokens dela deixam de funcionar em até 3 segundos.",
    "revogadas": "Credenciais revogadas. Elas e os tokens delas deixam de funcionar em até 3 segundos.",
    "endereco": "Endereço alterado. O segredo continua o mesmo.",
    "antigo": "O segredo antigo do webhook deixou de assinar.",
    "eventos": "Eventos atualizados.",
    "retomada": "Entregas retomadas. O que estava retido sai em ordem, aos poucos.",
    "removido": "Webhook removido.",
    "reenviada": "A entrega está na fila de novo.",
    "faixa": "Os eventos da faixa estão na fila de novo.",
    "cancelada": "Cobrança cancelada.",
    "simulado": "Pagamento simulado.",
    "expirada": "A cobrança expirou.", "falhou": "A cobrança falhou, como se o banco a tivesse recusado.",
    "relogio": "Relógio adiantado. O que venceu até aqui já aparece vencido.",
    "criada": "Cobrança criada.",
    "segunda-via": "Cobrança criada. A página do boleto vencido leva o pagador a ela.",
    "dispensada": "Pedido de 2ª via dispensado.",
    "vencimento": "Vencimento alterado. O boleto tem uma linha digitável nova.",
    "email": "E-mail na fila. Ele sai em instantes.",
    "email-parado": "Quem lê este endereço pediu para não receber e-mails seus. Nada foi enviado.",
    "saque": "Saque pedido. O valor saiu do saldo e segue para o banco em instantes.",
    "saque-cancelado": "Saque cancelado. O valor voltou ao saldo.",
    "saque-diario": "Saque automático ligado.",
    "saque-diario-desligado": "Saque automático desligado. Nada mais sai sem que alguém peça.",
    "devolucao": "Devolução pedida. O valor saiu do saldo; o banco confirma em instantes.",
    "divergencia": "Divergência resolvida.",
    "contato": "Contato salvo. A página de cada cobrança já o mostra.",
    "logotipo": "Logotipo salvo. Cobranças, boletos e e-mails já o mostram.",
    "logotipo-removido": "Logotipo removido.",
    "programada": "Programação criada.",
    "pausada": "Programação pausada. Nenhuma cobrança sai enquanto isso.",
    "continuada": "Programação retomada.",
    "encerrada": "Programação cancelada. As cobranças já emitidas continuam como estão.",
    "pedido-tentado": "Pedido adiantado na fila. O banco é consultado em instantes.",
    "teste": "Evento de teste criado. Ele aparece abaixo e chega ao seu servidor em instantes.",
}
REFUSED: Final[dict[Code, tuple[str, str]]] = {
    Code.CHARGE_NOT_PENDING: (
        "A cobrança não está mais em aberto", "Ela foi paga, cancelada ou venceu neste meio-tempo. Nada foi alterado."),
    Code.AMOUNT_INVALID: (
        "O valor não pode ser este", "Informe um valor maior que zero, como 10,50."),
    Code.INVALID_DUE_DATE: (
        "O vencimento não pode ser este", "Escolha um dia depois de hoje."),
    Code.INTEGRADOR_CODE_INVALID: (
        "Código de integrador desconhecido", "O código não existe ou não está ativo. Nada foi criado."),
    Code.KYC_REQUIRED: (
        "Cadastro não aprovado", "A produção só emite cobranças com o cadastro aprovado. Veja a situação em “Empresa”; "
        "até lá, use o teste."),
    Code.MERCHANT_ADDRESS_REQUIRED: (
        "Falta o endereço da empresa", "Boletos levam o endereço de quem recebe. Ele se completa em “Empresa”."),
    Code.PIX_AVULSO_SUSPENDED: (
        "Pix sem boleto está suspenso", "Por ora emita um boleto, com ou sem Pix. Nada foi criado."),
    Code.CHARGE_NOT_REFUNDABLE: (
        "Este pagamento não pode ser devolvido", "Um Pix volta em até 90 dias, um boleto em até 180."),
    Code.REFUND_EXCEEDS: (
        "Valor acima do que resta", "É mais do que ainda pode ser devolvido deste pagamento."),
    Code.REFUND_DESTINATION_REQUIRED: (
        "Falta para onde devolver", "O boleto foi pago pela linha digitável: informe a chave Pix e o documento."),
    Code.INSUFFICIENT_BALANCE: (
        "Saldo insuficiente", "O saldo da conta não cobre este valor. Nada foi alterado."),
    Code.WITHDRAWAL_BELOW_MINIMUM: (
        "Valor abaixo do mínimo", "O menor saque é de R$ 1,00."),
    Code.WITHDRAWAL_NOT_CANCELLABLE: (
        "O saque não pode mais ser cancelado", "Ele já foi para o banco ou terminou. Nada foi alterado."),
    Code.PAYER_EMAIL_REQUIRED: (
        "Falta o e-mail", "A cobrança não tem o e-mail do pagador. Informe um endereço."),
    Code.RATE_LIMITED: (
        "Muitas vezes em pouco tempo", "Espere um pouco e tente de novo. Nada foi alterado."),
    Code.SCHEDULE_ENDED: (
        "A programação já terminou", "Ela acabou ou foi cancelada. Nada foi alterado."),
    Code.BANK_UNAVAILABLE: (
        "O banco não confirmou", "Nada foi alterado. Tente de novo em alguns instantes."),
    Code.VALIDATION_ERROR: (
        "Não foi possível fazer isso", "Confira os dados e tente de novo."),
    Code.SERVICE_UNAVAILABLE: (
        "Serviço indisponível no momento", "Nada foi perdido. Tente de novo em alguns instantes."),
    Code.INTERNAL_ERROR: (
        "Não foi possível fazer isso", "Nada foi alterado. Tente de novo em alguns instantes."),
}
# fmt: on


def why(code: str) -> str:
    """Returns the title of a refusal by the name of its code."""
    return REFUSED.get(Code[code], REFUSED[Code.INTERNAL_ERROR])[0]


def refusal(code: Code) -> str:
    """Returns title and text as one line, for places that show no separate title."""
    title, text = REFUSED.get(code, REFUSED[Code.INTERNAL_ERROR])
    return f"{title}. {text}"
