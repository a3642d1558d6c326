"""What everything is called in the dashboard, one table for each set of names."""

from typing import Final

from domain.charge import Anomaly, Status
from domain.errors import Code
from domain.events import Kind

# fmt: off
STATUS: Final[dict[str, str]] = {
    Status.PENDING: "Em aberto", Status.PAID: "Paga", Status.EXPIRED: "Vencida", Status.CANCELLED: "Cancelada",
    Status.REFUNDED: "Devolvida", Status.FAILED: "Não concluída",
}
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
    Kind.PAYMENT_RECEIVED: "Pagamento recebido", Kind.CHARGE_CANCELLED: "Cobrança cancelada",
    Kind.CHARGE_EXPIRED: "Cobrança vencida", Kind.CHARGE_DUE_DATE_CHANGED: "Vencimento alterado",
    Kind.CHARGE_FAILED: "Cobrança não concluída", Kind.CHARGE_REFUNDED: "Cobrança devolvida por inteiro",
    Kind.REFUND_SUCCEEDED: "Devolução concluída", Kind.REFUND_FAILED: "Devolução recusada",
    Kind.PAYMENT_ANOMALY: "Pagamento com divergência", Kind.WITHDRAWAL_SUCCEEDED: "Saque concluído",
    Kind.WITHDRAWAL_FAILED: "Saque recusado",
}
DELIVERY_STATES: Final[dict[str, str]] = {
    "pending": "Na fila", "sending": "Sendo enviada", "delivered": "Entregue", "held": "Retida",
    "exhausted": "Tentativas esgotadas", "stuck": "Parada por falha nossa",
}
OUTCOMES: Final[dict[str, str]] = {
    "delivered": "Recebida", "rejected": "Recusada pelo seu servidor", "timeout": "Sem resposta em 10 s",
    "connection_refused": "Conexão recusada", "connection_reset": "Conexão interrompida",
    "dns_error": "Nome não encontrado (DNS)", "tls_error": "Certificado inválido (TLS)",
    "blocked_address": "Endereço não público", "worker_lost": "Falha nossa, tentada de novo",
    "network_error": "Falha de rede",
}
LANES: Final[dict[str, str]] = {
    "open": "Funcionando", "broken": "Com falhas, tentando de novo", "paused": "Pausada",
}
PAUSED: Final[dict[str, str]] = {
    "no_success": "72 horas sem nenhuma entrega aceita", "gone": "seu servidor respondeu 410 (não existe mais)",
}
NOTICES: Final[dict[str, str]] = {
    "webhook_failing": "Entregas falhando", "webhook_paused": "Entregas pausadas",
    "webhook_recovered": "Entregas normalizadas",
}
ROLES: Final[dict[str, str]] = {
    "owner": "Proprietário", "finance": "Financeiro", "developer": "Desenvolvimento", "support": "Atendimento",
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
    "cancelled": "Cancelada", "paid_externally": "Paga por outro meio",
}
ACTIONS: Final[dict[str, str]] = {
    "session.opened": "Entrou no painel", "session.ended": "Saiu do painel",
    "session.ended_everywhere": "Saiu de todos os dispositivos",
    "credential.created": "Criou uma credencial", "credential.rotated": "Trocou o segredo de uma credencial",
    "credential.revoked": "Revogou uma credencial",
    "webhook.registered": "Cadastrou o endereço do webhook", "webhook.moved": "Mudou o endereço do webhook",
    "webhook.rotated": "Trocou o segredo do webhook",
    "webhook.previous_revoked": "Encerrou o segredo antigo do webhook",
    "webhook.kinds_chosen": "Escolheu os eventos do webhook", "webhook.resumed": "Retomou as entregas",
    "webhook.removed": "Removeu o webhook", "webhook.tried": "Enviou um webhook de teste",
    "webhook.redelivered": "Reenviou uma entrega", "webhook.range_redelivered": "Reenviou uma faixa de eventos",
    "charge.cancelled": "Cancelou uma cobrança", "charge.paid_in_test": "Simulou um pagamento",
    # Of a slip only the asking is known when it is written down; what the bank said stands in the charge's own life.
    "slip.write_off_ordered": "Pediu a baixa de um boleto",
    "slip.test_payment_ordered": "Pediu a simulação do pagamento de um boleto",
}
# The facts of an action, and those of their values that are no words of the merchant's own.
FACTS: Final[dict[str, str]] = {
    "test": "ambiente", "overlap": "segredo antigo por", "kinds": "eventos", "reason": "motivo", "first": "do número",
    "last": "até o número",
}
FACT_VALUES: Final[dict[str, str]] = {
    "True": "teste", "False": "produção", "now": "nenhum tempo", "1h": "1 hora", "24h": "24 horas", "7d": "7 dias",
    "cancelled": "cancelada", "paid_externally": "paga por outro meio",
}
DONE: Final[dict[str, str]] = {
    "revogada": "Credencial revogada. Ela e os tokens dela deixam de funcionar em até 5 segundos.",
    "endereco": "Endereço alterado. O segredo continua o mesmo.",
    "antigo": "O segredo antigo do webhook deixou de assinar.",
    "eventos": "Eventos atualizados.",
    "retomada": "Entregas retomadas. O que estava retido sai em ordem, aos poucos.",
    "removido": "Webhook removido.",
    "reenviada": "A entrega está na fila de novo.",
    "faixa": "Os eventos da faixa estão na fila de novo.",
    "cancelada": "Cobrança cancelada.",
    "simulado": "Pagamento simulado.",
    "teste": "Evento de teste criado. Ele aparece abaixo e chega ao seu servidor em instantes.",
}
REFUSED: Final[dict[Code, tuple[str, str]]] = {
    Code.CHARGE_NOT_PENDING: (
        "A cobrança não está mais em aberto", "Ela foi paga, cancelada ou venceu neste meio-tempo. Nada foi alterado."),
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
