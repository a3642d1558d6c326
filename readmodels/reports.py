"""Reports for the people who run the platform: production only, each a table of the same few kinds of column.

All but the live ones are read from daily totals that a worker keeps (readmodels/report_fold.py) and lag by seconds;
`readmodels.report.freshness` says by how much. REPORTS names every report; the command line, the platform's pages and
files show what is here and add nothing.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import astuple

import sql
from readmodels.report import ALL_ACCOUNTS, Asked, Column, Kind, Lend, Report, Row
from readmodels.report_totals import (
    aging,
    find_conversion,
    find_expiry,
    find_integrators,
    find_receipts,
    find_refunds,
    find_webhooks,
    totals,
)
from readmodels.settlement import settlement

_LANES_PAGE = 500
DELIVERIES_MOST: Final = 10_000
"""Deliveries of an account in one state are counted no further: a number that says so means "at least"."""


class _Lane(Struct, frozen=True, gc=False):
    account_id: UUID
    name: str
    state: str
    since: datetime | None
    pending: int
    held: int
    exhausted: int


find_lanes = sql.many("report.webhook_lanes", _Lane)
_LAST_ID: Final = UUID(int=2**128 - 1)


async def _webhook_lanes(lend: Lend, asked: Asked) -> AsyncIterator[Row]:
    """One row for each account with an endpoint. One account is the range that holds only it."""
    after, last = ALL_ACCOUNTS, _LAST_ID
    if asked.account_id is not None:
        after, last = UUID(int=max(0, asked.account_id.int - 1)), asked.account_id
    while True:
        async with lend() as conn:
            lanes = await find_lanes(conn, after=after, last=last, most=DELIVERIES_MOST, page=_LANES_PAGE)
        for lane in lanes:
            yield (*astuple(lane)[1:], str(lane.account_id))
        if len(lanes) < _LANES_PAGE:
            return
        after = lanes[-1].account_id


_DAY = Column("day", "Dia", Kind.DATE)
_PAID_BY = Column("method", "Pago por", Kind.TEXT)
_ISSUED_AS = Column("method", "Cobrança", Kind.TEXT)

_ALL: Sequence[Report] = (
    Report(
        "receipts",
        "Recebimentos por dia",
        "Pagamentos no dia em que foram creditados, por meio de pagamento.",
        (
            _DAY,
            _PAID_BY,
            Column("payments", "Pagamentos", Kind.COUNT),
            Column("amount", "Valor", Kind.MONEY),
            Column("late", "Após o vencimento", Kind.COUNT),
            Column("anomalous", "Com anomalia", Kind.COUNT),
        ),
        totals(find_receipts),
    ),
    Report(
        "aging",
        "Boletos por vencimento",
        "Boletos em aberto pelos dias que faltam, e expirados sem pagamento pelos dias que passaram.",
        (
            Column("bucket", "Código", Kind.TEXT),
            Column("label", "Faixa", Kind.TEXT),
            Column("slips", "Boletos", Kind.COUNT),
            Column("amount", "Valor", Kind.MONEY),
        ),
        aging,
        dated=False,
        grouped=False,
    ),
    Report(
        "conversion",
        "Conversão e tempo até o pagamento",
        "Das cobranças emitidas em cada dia, quantas foram pagas e em quanto tempo (mediana e 90%).",
        (
            _DAY,
            _ISSUED_AS,
            Column("charges", "Emitidas", Kind.COUNT),
            Column("amount", "Valor", Kind.MONEY),
            Column("paid", "Pagas", Kind.COUNT),
            Column("paid_amount", "Valor pago", Kind.MONEY),
            Column("conversion", "Conversão (%)", Kind.RATIO),
            Column("median_seconds", "Mediana (s)", Kind.COUNT),
            Column("p90_seconds", "90% até (s)", Kind.COUNT),
        ),
        totals(find_conversion),
    ),
    Report(
        "expiry",
        "Expiração e cancelamento",
        "Das cobranças emitidas em cada dia, quantas expiraram, foram canceladas ou falharam.",
        (
            _DAY,
            _ISSUED_AS,
            Column("charges", "Emitidas", Kind.COUNT),
            Column("open", "Em aberto", Kind.COUNT),
            Column("expired", "Expiradas", Kind.COUNT),
            Column("expired_amount", "Valor expirado", Kind.MONEY),
            Column("cancelled", "Canceladas", Kind.COUNT),
            Column("cancelled_amount", "Valor cancelado", Kind.MONEY),
            Column("failed", "Com falha", Kind.COUNT),
            Column("expiry", "Expiração (%)", Kind.RATIO),
            Column("cancellation", "Cancelamento (%)", Kind.RATIO),
        ),
        totals(find_expiry),
    ),
    Report(
        "refunds",
        "Devoluções",
        "Devoluções no dia em que foram pedidas, concluídas ou recusadas.",
        (
            _DAY,
            _PAID_BY,
            Column("asked", "Pedidas", Kind.COUNT),
            Column("asked_amount", "Valor pedido", Kind.MONEY),
            Column("succeeded", "Concluídas", Kind.COUNT),
            Column("succeeded_amount", "Valor devolvido", Kind.MONEY),
            Column("failed", "Recusadas", Kind.COUNT),
            Column("failed_amount", "Valor recusado", Kind.MONEY),
        ),
        totals(find_refunds),
    ),
    Report(
        "integrators",
        "Integradores",
        "O que cada parceiro trouxe e recebeu no período.",
        (
            Column("integrador_code", "Código", Kind.TEXT),
            Column("name", "Parceiro", Kind.TEXT),
            Column("charges", "Cobranças", Kind.COUNT),
            Column("charge_amount", "Valor cobrado", Kind.MONEY),
            Column("payments", "Pagamentos", Kind.COUNT),
            Column("payment_amount", "Valor pago", Kind.MONEY),
            Column("given", "Participação", Kind.MONEY),
            Column("taken_back", "Estornada", Kind.MONEY),
            Column("net", "Líquida", Kind.MONEY),
        ),
        totals(find_integrators),
        grouped=False,
    ),
    Report(
        "webhooks",
        "Saúde dos webhooks",
        "Tentativas de entrega por dia e seu resultado.",
        (
            _DAY,
            Column("attempts", "Tentativas", Kind.COUNT),
            Column("delivered", "Entregues", Kind.COUNT),
            Column("rejected", "Recusadas", Kind.COUNT),
            Column("timed_out", "Sem resposta", Kind.COUNT),
            Column("unreachable", "Sem conexão", Kind.COUNT),
            Column("lost", "Perdidas por nós", Kind.COUNT),
            Column("success", "Sucesso (%)", Kind.RATIO),
            Column("mean_ms", "Média (ms)", Kind.COUNT),
        ),
        totals(find_webhooks),
    ),
    Report(
        "webhook_lanes",
        "Webhooks agora",
        "De cada conta com endereço: como está e o que espera. Contadas até 10.000 entregas de cada situação.",
        (
            Column("account", "Loja", Kind.TEXT),
            Column("state", "Webhook", Kind.TEXT),
            Column("since", "Falha desde", Kind.INSTANT),
            Column("pending", "Na fila", Kind.COUNT),
            Column("held", "Retidas", Kind.COUNT),
            Column("exhausted", "Esgotadas", Kind.COUNT),
            Column("account_id", "account_id", Kind.TEXT),
        ),
        _webhook_lanes,
        dated=False,
        grouped=False,
        live=True,
    ),
    Report(
        "settlement",
        "Fechamento por conta e dia",
        "Saldo de abertura, cada lançamento, saldo de fechamento e a soma de verificação (SHA-256) de cada dia.",
        (
            _DAY,
            Column("record", "Registro", Kind.TEXT),
            Column("sequence", "Nº", Kind.COUNT),
            Column("created_at", "Instante", Kind.INSTANT),
            Column("type", "Lançamento", Kind.TEXT),
            Column("amount", "Valor", Kind.MONEY),
            Column("balance", "Saldo", Kind.MONEY),
            Column("entry_id", "Id do lançamento", Kind.TEXT),
            Column("charge_id", "Cobrança", Kind.TEXT),
            Column("payment_id", "Pagamento", Kind.TEXT),
            Column("refund_id", "Devolução", Kind.TEXT),
            Column("withdrawal_id", "Saque", Kind.TEXT),
            Column("external_id", "Referência", Kind.TEXT),
            Column("entries", "Lançamentos", Kind.COUNT),
            Column("sha256", "SHA-256", Kind.TEXT),
        ),
        settlement,
        grouped=False,
        of_one_account=True,
        live=True,
    ),
)

REPORTS: Final[dict[str, Report]] = {report.name: report for report in _ALL}
