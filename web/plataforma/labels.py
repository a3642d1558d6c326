"""The names that the staff's section shows, in addition to the dashboard's."""

from typing import Final

from commands.bank_orders.kinds import OrderKind
from commands.merchants.kyc import Kyc
from domain.merchants.staff import REASON_MAX
from domain.refund import Hold
from readmodels.dashboard.registration_review import ReviewItem
from web.painel.labels import ENTRY_TYPES, METHODS, WEBHOOKS

NO_REASON: Final = f"Escreva o motivo, com até {REASON_MAX} caracteres."
# fmt: off
# The text on the button of each decision.
DECISIONS: Final[dict[str, str]] = {
    Kyc.APPROVED: "Aprovar", Kyc.REJECTED: "Recusar", Kyc.BLOCKED: "Bloquear",
}
QUEUES: Final[dict[str, str]] = {
    "bank_pix": "Pix a enviar ao banco", "bank_boletos": "Boletos a enviar ao banco",
    "bank_refunds": "Devoluções a enviar ao banco", "bank_withdrawals": "Saques a enviar ao banco",
    "bank_hints": "Avisos do banco a conferir", "webhooks": "Webhooks a entregar",
    "webhooks_of_failing_receivers": "Webhooks que a loja não recebe", "webhooks_held": "Webhooks retidos",
    "mails": "E-mails a enviar",
}
# Words for the values of a report's columns, by column; files keep the codes.
CELLS: Final[dict[str, dict[str, str]]] = {
    "method": METHODS, "type": ENTRY_TYPES,
    "record": {"opening": "Abertura", "entry": "Lançamento", "closing": "Fechamento"},
    "state": WEBHOOKS,
}
SUSPENSE_KINDS: Final[dict[str, str]] = {
    "pix_unknown_txid": "Pix com txid desconhecido", "pix_without_txid": "Pix sem txid",
    "boleto_unknown": "Boleto desconhecido",
}
SUSPENSE_STATES: Final[dict[str, str]] = {
    "open": "A identificar", "assigned": "Atribuído", "returned": "Devolvido no banco",
}
SUSPENSE_CHIPS: Final[dict[str, str]] = {"open": "chip-warn", "assigned": "chip-paid", "returned": "chip-expired"}
HOLDS: Final[dict[str, str]] = {
    Hold.NOT_APPROVED: "Conta sem cadastro aprovado", Hold.OVER_BOUND: "Acima do limite do dia da conta",
}
HELD_STATES: Final[dict[str, str]] = {"open": "Esperando", "released": "Liberada", "refused": "Recusada"}
HELD_CHIPS: Final[dict[str, str]] = {"open": "chip-warn", "released": "chip-paid", "refused": "chip-expired"}
ORDER_KINDS: Final[dict[str, str]] = {
    OrderKind.COB_REGISTER: "Registro de um Pix", OrderKind.COB_REMOVE: "Cancelamento de um Pix",
    OrderKind.COB_REVISE: "Prazo de um Pix", OrderKind.PIX_SIMULATE: "Pagamento simulado de um Pix",
    OrderKind.BOLETO_REGISTER: "Registro de um boleto", OrderKind.BOLETO_WRITE_OFF: "Baixa de um boleto",
    OrderKind.BOLETO_REDATE: "Novo vencimento de um boleto", OrderKind.BOLETO_PAY: "Pagamento simulado de um boleto",
    OrderKind.BOLETO_RECONCILE: "Conferência de um boleto", OrderKind.REFUND_RETURN: "Devolução de um Pix",
    OrderKind.REFUND_TRANSFER: "Devolução por transferência", OrderKind.WITHDRAWAL_SEND: "Saque",
}
BANK_OPERATIONS: Final[dict[str, str]] = {
    "put_cob": "Registrar um Pix", "get_cob": "Consultar um Pix", "remove_cob": "Cancelar um Pix",
    "revise_cob": "Mudar o prazo de um Pix", "create_locations": "Reservar QR Codes",
    "create_cobv_location": "Reservar um QR Code com vencimento", "put_cobv": "Registrar um Pix com vencimento",
    "get_cobv": "Consultar um Pix com vencimento", "remove_cobv": "Cancelar um Pix com vencimento",
    "revise_cobv": "Mudar o vencimento de um Pix",
    "received_page": "Listar Pix recebidos", "sent_page": "Listar Pix enviados",
    "register_callback": "Registrar o aviso do banco",
    "return_pix": "Devolver um Pix", "find_return": "Consultar uma devolução", "send_pix": "Enviar um Pix",
    "find_transfer": "Consultar um envio", "register_boleto": "Registrar um boleto",
    "find_boleto": "Consultar um boleto", "redate_boleto": "Mudar o vencimento de um boleto",
    "write_off_boleto": "Baixar um boleto", "paid_page": "Listar boletos pagos",
}
ORDER_ENDS: Final[dict[str, str]] = {"refused": "recusado pelo banco", "abandoned": "ninguém esperava mais"}
# What a person who approves a registration must have checked, and against what.
REVIEW: Final[dict[str, tuple[str, str]]] = {
    ReviewItem.COMPANY: ("Empresa", "Ativa na Receita Federal, com esta razão social."),
    ReviewItem.ADDRESS: ("Endereço", "É o da Receita Federal, ou a loja explicou por que não."),
    ReviewItem.PEOPLE: ("Pessoas", "Quem entra no painel é da empresa, ou age em nome dela."),
    ReviewItem.PAYOUT_KEY: ("Chave dos saques", "O dono da chave é a empresa."),
    ReviewItem.ACTIVITY: ("Atividade", "O que a empresa vende pode ser cobrado aqui, no volume esperado."),
}
# What each role of the staff may do.
STAFF_ROLES: Final[dict[str, str]] = {
    "admin": "Tudo, e quem entra na equipe.",
    "operations": "Cadastros, bloqueios, pendências, webhooks, valores a identificar e dados de pagadores.",
    "finance": "Devoluções retidas, chaves dos saques, parceiros e relatórios.",
    "support": "Procura e lê; não muda nada.",
}
LANES: Final[dict[str, str]] = {"broken": "Webhooks com falhas", "paused": "Webhooks pausados"}
# fmt: on
