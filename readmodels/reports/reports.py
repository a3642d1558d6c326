"""Reports for the platform's operators: production only, each a table of the same few kinds of columns.

All reports but the live ones are read from daily totals that a worker keeps (readmodels/reports/fold.py), and lag by
seconds; `readmodels.reports.report.freshness` says by how much. REPORTS lists every report; the command line, the
platform's pages and the files show these reports and add nothing.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import astuple

import sql
from readmodels.reports.fees import FEES
from readmodels.reports.remade import MEAN_MS, WAITED
from readmodels.reports.report import (
    ALL_ACCOUNTS,
    Column,
    ColumnKind,
    Lend,
    MeanOver,
    NoTotal,
    Remade,
    Report,
    ReportQuery,
    Row,
    Share,
)
from readmodels.reports.settlement import settlement
from readmodels.reports.totals import aging, totals

_LANES_PAGE = 500
DELIVERIES_MAX: Final = 10_000
"""An account's deliveries in one state are counted up to this number, which then means "at least"."""


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


async def _lane_rows(lend: Lend, query: ReportQuery) -> AsyncIterator[Row]:
    """One row for each account with an endpoint. A single account is asked for as the range that holds only this id."""
    after, last = ALL_ACCOUNTS, _LAST_ID
    if query.account_id is not None:
        after, last = UUID(int=max(0, query.account_id.int - 1)), query.account_id
    while True:
        async with lend() as conn:
            lanes = await find_lanes(conn, after=after, last=last, limit=DELIVERIES_MAX, page=_LANES_PAGE)
        for lane in lanes:
            yield (*astuple(lane)[1:], str(lane.account_id))
        if len(lanes) < _LANES_PAGE:
            return
        after = lanes[-1].account_id


_DAY = Column("day", "Dia", ColumnKind.DATE)
_PAID_BY = Column("method", "Pago por", ColumnKind.TEXT)
_ISSUED_AS = Column("method", "Cobrança", ColumnKind.TEXT)


def _totals_report(
    name: str,
    title: str,
    about: str,
    help: str,
    columns: tuple[Column, ...],
    *,
    key: tuple[str, ...],
    plotted: str,
    named_by: str = "",
    remade: Remade | None = None,
    spread: bool = False,
) -> Report:
    return Report(
        name,
        title,
        about,
        help,
        columns,
        totals(name, columns),
        plotted=plotted,
        named_by=named_by,
        key=key,
        remade=remade,
        spread=spread,
    )


_ALL: Sequence[Report] = (
    _totals_report(
        "receipts",
        "Recebimentos por dia",
        "Pagamentos no dia em que foram creditados, por meio de pagamento.",
        "payments by the day of their credit",
        (
            _DAY,
            _PAID_BY,
            Column("payments", "Pagamentos", ColumnKind.COUNT),
            Column("amount", "Valor", ColumnKind.MONEY),
            Column("late", "Com atraso", ColumnKind.COUNT),
            Column("anomalous", "Com anomalia", ColumnKind.COUNT),
        ),
        key=("day", "method"),
        plotted="amount",
    ),
    Report(
        "aging",
        "Boletos por vencimento",
        "Boletos em aberto pelos dias que faltam, e expirados sem pagamento pelos dias que passaram.",
        "open boletos by the days left, expired ones by the days since",
        (
            Column("bucket", "Código", ColumnKind.TEXT),
            Column("label", "Faixa", ColumnKind.TEXT),
            Column("slips", "Boletos", ColumnKind.COUNT),
            Column("amount", "Valor", ColumnKind.MONEY),
        ),
        aging,
        dated=False,
        plotted="amount",
        named_by="label",
        key=("bucket",),
    ),
    _totals_report(
        "conversion",
        "Conversão e tempo até o pagamento",
        "Das cobranças emitidas em cada dia, quantas foram pagas e em quanto tempo (mediana e 90%).",
        "how many charges were paid, and how fast",
        (
            _DAY,
            _ISSUED_AS,
            Column("charges", "Emitidas", ColumnKind.COUNT),
            Column("amount", "Valor", ColumnKind.MONEY),
            Column("paid", "Pagas", ColumnKind.COUNT),
            Column("paid_amount", "Valor pago", ColumnKind.MONEY),
            Column("conversion", "Conversão (%)", ColumnKind.RATIO, Share("paid", "charges")),
            Column("median_seconds", "Mediana (s)", ColumnKind.SECONDS, NoTotal()),
            Column("p90_seconds", "90% até (s)", ColumnKind.SECONDS, NoTotal()),
        ),
        key=("day", "method"),
        plotted="conversion",
        remade=WAITED,
    ),
    _totals_report(
        "expiry",
        "Expiração e cancelamento",
        "Das cobranças emitidas em cada dia, quantas expiraram, foram canceladas ou falharam.",
        "how many charges expired, were cancelled or failed",
        (
            _DAY,
            _ISSUED_AS,
            Column("charges", "Emitidas", ColumnKind.COUNT),
            Column("open", "Em aberto", ColumnKind.COUNT),
            Column("expired", "Expiradas", ColumnKind.COUNT),
            Column("expired_amount", "Valor expirado", ColumnKind.MONEY),
            Column("cancelled", "Canceladas", ColumnKind.COUNT),
            Column("cancelled_amount", "Valor cancelado", ColumnKind.MONEY),
            Column("failed", "Com falha", ColumnKind.COUNT),
            Column("expiry", "Expiração (%)", ColumnKind.RATIO, Share("expired", "charges")),
            Column("cancellation", "Cancelamento (%)", ColumnKind.RATIO, Share("cancelled", "charges")),
        ),
        key=("day", "method"),
        plotted="expired_amount",
    ),
    _totals_report(
        "refunds",
        "Devoluções",
        "Devoluções no dia em que foram pedidas, concluídas ou recusadas.",
        "refunds asked for, succeeded and failed",
        (
            _DAY,
            _PAID_BY,
            Column("asked", "Pedidas", ColumnKind.COUNT),
            Column("asked_amount", "Valor pedido", ColumnKind.MONEY),
            Column("succeeded", "Concluídas", ColumnKind.COUNT),
            Column("succeeded_amount", "Valor devolvido", ColumnKind.MONEY),
            Column("failed", "Recusadas", ColumnKind.COUNT),
            Column("failed_amount", "Valor recusado", ColumnKind.MONEY),
        ),
        key=("day", "method"),
        plotted="asked_amount",
    ),
    FEES,
    _totals_report(
        "integrators",
        "Integradores",
        "O que cada parceiro trouxe e recebeu no período.",
        "what partners brought and were given",
        (
            Column("integrador_code", "Código", ColumnKind.TEXT),
            Column("name", "Parceiro", ColumnKind.TEXT),
            Column("charges", "Cobranças", ColumnKind.COUNT),
            Column("charge_amount", "Valor cobrado", ColumnKind.MONEY),
            Column("payments", "Pagamentos", ColumnKind.COUNT),
            Column("payment_amount", "Valor pago", ColumnKind.MONEY),
            Column("given", "Participação", ColumnKind.MONEY),
            Column("taken_back", "Estornada", ColumnKind.MONEY),
            Column("net", "Líquida", ColumnKind.MONEY),
        ),
        key=("integrador_code",),
        plotted="payment_amount",
        named_by="name",
        # A share is booked, and so counted, in the partner's cell.
        spread=True,
    ),
    _totals_report(
        "webhooks",
        "Saúde dos webhooks",
        "Tentativas de entrega por dia e seu resultado.",
        "attempts to tell merchants, and how they ended",
        (
            _DAY,
            Column("attempts", "Tentativas", ColumnKind.COUNT),
            Column("delivered", "Entregues", ColumnKind.COUNT),
            Column("rejected", "Recusadas", ColumnKind.COUNT),
            Column("timed_out", "Sem resposta", ColumnKind.COUNT),
            Column("unreachable", "Sem conexão", ColumnKind.COUNT),
            Column("lost", "Perdidas por nós", ColumnKind.COUNT),
            Column("success", "Sucesso (%)", ColumnKind.RATIO, Share("delivered", "attempts")),
            Column("mean_ms", "Média (ms)", ColumnKind.COUNT, MeanOver("attempts")),
        ),
        key=("day",),
        plotted="success",
        remade=MEAN_MS,
    ),
    Report(
        "webhook_lanes",
        "Webhooks agora",
        "De cada conta com endereço: como está e o que espera. Contadas até 10.000 entregas de cada situação.",
        "what merchants' webhooks are like now, and what waits for them",
        (
            Column("account", "Loja", ColumnKind.TEXT),
            Column("state", "Webhook", ColumnKind.TEXT),
            Column("since", "Falha desde", ColumnKind.INSTANT),
            Column("pending", "Na fila", ColumnKind.COUNT),
            Column("held", "Retidas", ColumnKind.COUNT),
            Column("exhausted", "Esgotadas", ColumnKind.COUNT),
            Column("account_id", "account_id", ColumnKind.TEXT),
        ),
        _lane_rows,
        dated=False,
        plotted="pending",
        named_by="account",
        live=True,
    ),
    Report(
        "settlement",
        "Fechamento por conta e dia",
        "Saldo de abertura, cada lançamento, saldo de fechamento, recebido, tarifas e a soma de verificação (SHA-256) "
        "de cada dia.",
        "an account's ledger by day, opening to closing, with what was received and charged, and a check sum",
        (
            _DAY,
            Column("record", "Registro", ColumnKind.TEXT),
            Column("sequence", "Nº", ColumnKind.COUNT, NoTotal()),
            Column("created_at", "Instante", ColumnKind.INSTANT),
            Column("type", "Lançamento", ColumnKind.TEXT),
            Column("amount", "Valor", ColumnKind.MONEY),
            Column("balance", "Saldo", ColumnKind.MONEY, NoTotal()),
            Column("entry_id", "Id do lançamento", ColumnKind.TEXT),
            Column("charge_id", "Cobrança", ColumnKind.TEXT),
            Column("payment_id", "Pagamento", ColumnKind.TEXT),
            Column("refund_id", "Devolução", ColumnKind.TEXT),
            Column("withdrawal_id", "Saque", ColumnKind.TEXT),
            Column("external_id", "Referência", ColumnKind.TEXT),
            Column("entries", "Lançamentos", ColumnKind.COUNT),
            Column("sha256", "SHA-256", ColumnKind.TEXT),
            Column("received", "Recebido", ColumnKind.MONEY),
            Column("fees", "Tarifas", ColumnKind.MONEY),
            Column("net", "Líquido", ColumnKind.MONEY),
        ),
        settlement,
        plotted="balance",
        of_one_account=True,
        live=True,
    ),
)

REPORTS: Final[dict[str, Report]] = {report.name: report for report in _ALL}
