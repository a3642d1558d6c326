"""The remedies (web/documentation/remedies.py) in Portuguese."""

from typing import Final

from domain.errors import Code

REMEDIES_PT: Final[dict[Code, str]] = {
    Code.IDEMPOTENCY_KEY_REQUIRED: (
        "Envie um cabeçalho Idempotency-Key: um UUID novo por operação, o mesmo quando a repetir."
    ),
    Code.AMOUNT_INVALID: (
        'Envie o valor como texto JSON, por exemplo "149.90": dígitos ASCII, um ponto, no máximo duas casas, nunca um '
        "número."
    ),
    Code.INVALID_DUE_DATE: (
        "Envie uma data que existe, como AAAA-MM-DD. Um boleto novo vence amanhã no mínimo, pelo dia de São Paulo."
    ),
    Code.CURSOR_INVALID: (
        "Use next_cursor exatamente como veio, com os mesmos filtros e a mesma credencial, ou comece sem cursor."
    ),
    Code.LIMIT_INVALID: "Envie um número inteiro a partir de 1. Acima de 100 o limite é tomado como 100.",
    Code.INTEGRADOR_CODE_INVALID: (
        "Confira o código (INTG- e seis de A-Z e 0-9) com o seu parceiro, ou deixe o campo de fora. Nada foi criado."
    ),
    Code.CANCEL_REFERENCE_REQUIRED: "Indique a cobrança por charge_id ou por external_id: um deles, não os dois.",
    Code.ACCOUNT_MISMATCH: "Deixe account_id de fora, ou envie a conta a que o token pertence.",
    Code.KYC_REQUIRED: (
        "Complete o cadastro da conta e espere a aprovação. Credenciais de teste funcionam nesse meio-tempo."
    ),
    Code.PIX_AVULSO_SUSPENDED: (
        "Emita boleto ou boleto_hibrido nesse meio-tempo. Cobranças já emitidas continuam pagáveis; o ambiente de "
        "teste não é afetado."
    ),
    Code.SANDBOX_ONLY: (
        "Use uma credencial do outro modo: algumas operações só existem com as de teste, outras só com as de produção."
    ),
    Code.CHARGE_NOT_FOUND: (
        "Confira o id e a credencial: cobranças de outra conta ou do outro modo também são respondidas assim."
    ),
    Code.REFUND_NOT_FOUND: (
        "Confira o id e a credencial: devoluções de outra conta ou do outro modo também são respondidas assim."
    ),
    Code.WALLET_ACCOUNT_NOT_FOUND: "Use a conta a que o token pertence.",
    Code.IDEMPOTENCY_KEY_REUSED: (
        "Use uma chave nova para uma operação nova. Para repetir, repita método, caminho e corpo exatamente."
    ),
    Code.CHARGE_NOT_PENDING: (
        "Leia a cobrança: ela foi paga, cancelada ou venceu nesse meio-tempo. Não repita a requisição."
    ),
    Code.CHARGE_NOT_REFUNDABLE: (
        "Só uma cobrança paga pode ser devolvida, Pix até 90 dias depois do pagamento e boletos até 180. Dinheiro que "
        "veio de outro modo (GET /v1/payments?anomaly=) é devolvido pelo payment_id."
    ),
    Code.CANCEL_REFERENCE_AMBIGUOUS: (
        "Liste as cobranças pendentes com este external_id e indique a que você quer pelo charge_id."
    ),
    Code.REFUND_EXCEEDS: (
        "Leia as devoluções da cobrança: as pendentes contam. Peça no máximo o que resta, ou deixe o valor de fora."
    ),
    Code.MERCHANT_ADDRESS_REQUIRED: (
        "Complete o endereço da própria conta no cadastro; o banco o exige em todo boleto."
    ),
    Code.BANK_UNAVAILABLE: (
        "Repita a mesma requisição com a mesma Idempotency-Key, depois de Retry-After quando ele vier. Nada fica "
        "registrado."
    ),
    Code.UNAUTHENTICATED: (
        "Peça um token novo em POST /v1/oauth/token e envie-o como Authorization: Bearer <token>. Ele dura uma hora."
    ),
    Code.INSUFFICIENT_SCOPE: ("Peça um token com o escopo que esta operação exige, com uma credencial que o tenha."),
    Code.VALIDATION_ERROR: (
        "Veja error.fields: cada item indica um campo e o que há de errado. Parâmetros de consulta desconhecidos são "
        "recusados nas listas."
    ),
    Code.MALFORMED_JSON: "Envie um objeto JSON em UTF-8. Deixe uma biblioteca de JSON escrevê-lo.",
    Code.IDEMPOTENCY_KEY_INVALID: "Envie de 1 a 255 caracteres ASCII imprimíveis; um UUID é o melhor.",
    Code.IDEMPOTENCY_IN_PROGRESS: (
        "Espere o que Retry-After diz e repita a mesma requisição: ela responde com o resultado da primeira."
    ),
    Code.EXPIRES_IN_INVALID: (
        "Envie um inteiro JSON de segundos, de um minuto (60) a trinta dias (2592000), ou deixe de fora para um dia."
    ),
    Code.DATE_RANGE_INVALID: (
        "Envie datas que existem, como AAAA-MM-DD, a mais antiga primeiro. Os dois dias estão incluídos."
    ),
    Code.MALFORMED_REQUEST: (
        "Deixe uma biblioteca de HTTP escrever a requisição: sem NUL nem dois-pontos no nome de um cabeçalho, um "
        "tamanho só e certo. A conexão é fechada depois desta resposta."
    ),
    Code.ROUTE_NOT_FOUND: ("Confira o caminho; todas as operações começam com /v1. A lista está em /v1/openapi.json."),
    Code.METHOD_NOT_ALLOWED: "O cabeçalho Allow indica os métodos deste caminho.",
    Code.REQUEST_TIMEOUT: (
        "Envie os cabeçalhos em 10 segundos e o corpo em 20, e repita com a mesma Idempotency-Key. Nada foi feito, e a "
        "conexão é fechada."
    ),
    Code.PAYLOAD_TOO_LARGE: "Envie menos de 256 KiB.",
    Code.URI_TOO_LONG: "Pergunte com menos filtros de uma vez.",
    Code.UNSUPPORTED_MEDIA_TYPE: "Envie Content-Type: application/json, o corpo sem compressão e sem Content-Encoding.",
    Code.RATE_LIMITED: ("Espere o que Retry-After diz. Os cabeçalhos RateLimit-* de toda resposta dizem o que resta."),
    Code.INSUFFICIENT_BALANCE: (
        "Leia o saldo, e repita com a mesma Idempotency-Key quando a conta tiver recebido o bastante: uma devolução ou "
        "um saque sai do saldo no momento em que é pedido."
    ),
    Code.REFUND_DESTINATION_REQUIRED: (
        "Acrescente destination com pix_key e document do próprio pagador: um boleto pago pela linha digitável não "
        "tem um Pix a devolver."
    ),
    Code.PAYER_EMAIL_REQUIRED: "Envie o endereço no campo to, ou crie cobranças com o e-mail do pagador.",
    Code.WITHDRAWAL_NOT_FOUND: ("Confira o id e a credencial: saques de outra conta também são respondidos assim."),
    Code.WITHDRAWAL_NOT_CANCELLABLE: "Leia o saque: ele está a caminho do banco ou terminou.",
    Code.WITHDRAWAL_BELOW_MINIMUM: "Saque 1.00 ou mais.",
    Code.SCHEDULE_NOT_FOUND: ("Confira o id e a credencial: programações de outra conta também são respondidas assim."),
    Code.SCHEDULE_ENDED: "Leia a programação: está cancelada ou concluída. Crie outra para continuar.",
    Code.DELIVERY_NOT_FOUND: (
        "Confira o id e a credencial: entregas de outra conta ou do outro modo também são respondidas assim. "
        "GET /v1/webhook-deliveries?event_id= encontra a entrega de um evento."
    ),
    Code.REQUEST_NOT_FOUND: (
        "Confira o id (X-Request-Id da resposta) e a credencial: requisições de outra conta ou do outro modo também "
        "são respondidas assim. Uma requisição está no registro um ou dois segundos depois da resposta, e por 30 dias."
    ),
    Code.HEADERS_TOO_LARGE: ("Envie menos cabeçalhos: este serviço lê Authorization, Idempotency-Key e Content-Type."),
    Code.INTERNAL_ERROR: (
        "Repita a mesma requisição com a mesma Idempotency-Key. Se continuar, informe error.request_id."
    ),
    Code.SERVICE_UNAVAILABLE: (
        "Repita a mesma requisição com a mesma Idempotency-Key depois de alguns segundos, esperando mais a cada vez."
    ),
}
