"""Reports for the people who run the platform: production only, each a table of the same few kinds of column.

All but the live ones are read from daily totals that a worker keeps (readmodels/report_fold.py) and lag by seconds;
`freshness` says by how much. REPORTS names every report; the command line, the platform's pages and files show what is
here and add nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import astuple

import sql
from domain.errors import Code, Refused
from domain.instants import SAO_PAULO, day_begins, day_ends, iso
from domain.money import reais
from readmodels.csv_lines import BasisPoints, Cents, Field
from sql import Connection

ALL_ACCOUNTS: Final = UUID(int=0)
"""Stands for all accounts in the daily totals."""
MOST_DAYS: Final = 731
_SETTLEMENT_MOST_DAYS = 92
_LINES_PAGE = 5_000
_LANES_PAGE = 500
DELIVERIES_MOST: Final = 10_000
"""Deliveries of an account in one state are counted no further: a number that says so means "at least"."""
_LONG_AGO, _FAR_OFF = date(1, 1, 1), date(9999, 12, 31)


class Kind(StrEnum):
    """What a column holds. None is nothing to show, in each."""

    DATE = "date"  # date
    INSTANT = "instant"  # datetime
    TEXT = "text"  # str
    MONEY = "money"  # int, cents
    COUNT = "count"  # int
    RATIO = "ratio"  # int, basis points: 9750 is 97.50 %


class By(StrEnum):
    """What a row of a dated report covers. Its day is the first of that; of `period` the first asked for."""

    DAY = "day"
    MONTH = "month"
    PERIOD = "period"


class Column(NamedTuple):
    name: str
    heading: str
    """In Portuguese."""
    kind: Kind


class Asked(Struct, frozen=True, kw_only=True):
    """São Paulo days, both inclusive; `today` is the day it is asked on. No account: all of them together."""

    first: date
    last: date
    today: date
    account_id: UUID | None = None
    by: By = By.DAY

    @property
    def totals_of(self) -> UUID:
        return self.account_id or ALL_ACCOUNTS


Row = tuple[Any, ...]
Rows = Callable[[Connection, Asked], AsyncIterator[Row]]


class Report(NamedTuple):
    name: str
    title: str
    about: str
    """A sentence in Portuguese on what is counted."""
    columns: tuple[Column, ...]
    rows: Rows
    """The rows, each as long as the columns. A settlement may be long: take it row by row."""
    dated: bool = True
    """Whether it covers the days asked for; else it is of today."""
    grouped: bool = True
    """Whether `by` means something."""
    of_one_account: bool = False
    live: bool = False
    """Read from what it tells of and not from the totals: it does not lag."""


class Freshness(Struct, frozen=True):
    """Everything before `as_of` is in the totals; that was `lag_seconds` ago."""

    as_of: datetime
    lag_seconds: int


find_freshness = sql.maybe("report.freshness", Freshness)
grant_views = sql.run("report.grant")


def ask(
    report: Report,
    *,
    today: date,
    first: date | None = None,
    last: date | None = None,
    account_id: UUID | None = None,
    by: By = By.DAY,
) -> Asked:
    """What is to be reported. Without days: the last thirty, of a settlement yesterday.

    Refused(DATE_RANGE_INVALID) for a range that ends before it begins or is too long, Refused(VALIDATION_ERROR) when
    the report is of one account and none is named.
    """
    if report.of_one_account and account_id is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"account_id": "this report is of one account"})
    most = _SETTLEMENT_MOST_DAYS if report.live else MOST_DAYS
    last = last or (today - timedelta(days=1) if report.live and first is None else today)
    first = first or (last if report.live else last - timedelta(days=29))
    if not 0 <= (last - first).days < most:
        raise Refused(Code.DATE_RANGE_INVALID, fields={"from": f"must be 0 to {most - 1} days before the last day"})
    return Asked(first=first, last=last, today=today, account_id=account_id, by=by)


async def freshness(conn: Connection) -> Freshness | None:
    """How current the daily totals are; None before the first round of a worker."""
    return await find_freshness(conn)


def as_csv(report: Report, row: Row) -> list[Field]:
    """For readmodels.csv_lines."""
    fields: list[Field] = []
    for column, value in zip(report.columns, row, strict=True):
        if value is None:
            fields.append(None)
        elif column.kind is Kind.MONEY:
            fields.append(Cents(value))
        elif column.kind is Kind.RATIO:
            fields.append(BasisPoints(value))
        else:
            fields.append(value)
    return fields


def as_json(report: Report, row: Row) -> dict[str, str | int | None]:
    """Money and ratios (in percent) as decimal strings, instants in UTC."""
    shown: dict[str, str | int | None] = {}
    for column, value in zip(report.columns, row, strict=True):
        match column.kind:
            case _ if value is None:
                shown[column.name] = None
            case Kind.MONEY | Kind.RATIO:
                shown[column.name] = reais(value)
            case Kind.INSTANT:
                shown[column.name] = iso(value)
            case Kind.DATE:
                shown[column.name] = value.isoformat()
            case _:
                shown[column.name] = value
    return shown


# From the daily totals


class _Receipts(Struct, frozen=True, gc=False):
    day: date
    method: str
    payments: int
    amount: int
    late: int
    anomalous: int


class _Aging(Struct, frozen=True, gc=False):
    slips: int
    amount: int


class _Conversion(Struct, frozen=True, gc=False):
    day: date
    method: str
    charges: int
    amount: int
    paid: int
    paid_amount: int
    conversion: int
    median_seconds: int | None
    p90_seconds: int | None


class _Expiry(Struct, frozen=True, gc=False):
    day: date
    method: str
    charges: int
    open: int
    expired: int
    expired_amount: int
    cancelled: int
    cancelled_amount: int
    failed: int
    expiry: int
    cancellation: int


class _Refunds(Struct, frozen=True, gc=False):
    day: date
    method: str
    asked: int
    asked_amount: int
    succeeded: int
    succeeded_amount: int
    failed: int
    failed_amount: int


class _Integrators(Struct, frozen=True, gc=False):
    integrador_code: str
    name: str | None
    charges: int
    charge_amount: int
    payments: int
    payment_amount: int
    given: int
    taken_back: int
    net: int


class _Webhooks(Struct, frozen=True, gc=False):
    day: date
    attempts: int
    delivered: int
    rejected: int
    timed_out: int
    unreachable: int
    lost: int
    success: int
    mean_ms: int


find_receipts = sql.many("report.receipts", _Receipts)
find_aging = sql.many("report.aging", _Aging)
find_conversion = sql.many("report.conversion", _Conversion)
find_expiry = sql.many("report.expiry", _Expiry)
find_refunds = sql.many("report.refunds", _Refunds)
find_integrators = sql.many("report.integrators", _Integrators)
find_webhooks = sql.many("report.webhooks", _Webhooks)


def _totals(find: Callable[..., Awaitable[list[Any]]]) -> Rows:
    """The rows of a statement that is asked about days."""

    async def rows(conn: Connection, asked: Asked) -> AsyncIterator[Row]:
        found = await find(conn, account_id=asked.totals_of, first=asked.first, last=asked.last, by=asked.by.value)
        for row in found:
            yield astuple(row)

    return rows


# A slip is payable until the end of its (effective) due date and expires then: what can be old is the expired one.
# Days from today to the due date, both inclusive; None is without end.
_AGES: Final = (
    ("open_31_or_more", "Em aberto, vence em mais de 30 dias", "pending", 31, None),
    ("open_8_to_30", "Em aberto, vence em 8 a 30 dias", "pending", 8, 30),
    ("open_1_to_7", "Em aberto, vence em 1 a 7 dias", "pending", 1, 7),
    ("open_today", "Em aberto, vence hoje", "pending", 0, 0),
    ("open_past_due", "Em aberto, vencido e ainda pagável", "pending", None, -1),
    ("expired_7_or_less", "Expirado, vencido há até 7 dias", "expired", -7, 0),
    ("expired_8_to_30", "Expirado, vencido há 8 a 30 dias", "expired", -30, -8),
    ("expired_31_to_90", "Expirado, vencido há 31 a 90 dias", "expired", -90, -31),
    ("expired_91_or_more", "Expirado, vencido há mais de 90 dias", "expired", None, -91),
)


async def _aging(conn: Connection, asked: Asked) -> AsyncIterator[Row]:
    def on(days: int | None, otherwise: date) -> date:
        return otherwise if days is None else asked.today + timedelta(days=days)

    rows = await find_aging(
        conn,
        account_id=asked.totals_of,
        statuses=[status for _, _, status, _, _ in _AGES],
        firsts=[on(first, _LONG_AGO) for _, _, _, first, _ in _AGES],
        lasts=[on(last, _FAR_OFF) for _, _, _, _, last in _AGES],
    )
    for (bucket, label, *_), row in zip(_AGES, rows, strict=True):
        yield (bucket, label, row.slips, row.amount)


# From the ledger itself


class _Line(Struct, frozen=True, gc=False):
    sequence: int
    entry_id: UUID
    created_at: datetime
    type: str
    amount_cents: int
    balance_after_cents: int
    charge_id: UUID | None
    payment_id: UUID | None
    refund_id: UUID | None
    withdrawal_id: UUID | None
    external_id: str | None


class _Standing(Struct, frozen=True, gc=False):
    sequence: int
    balance_after_cents: int


find_standing = sql.maybe("report.settled_before", _Standing)
find_lines = sql.many("report.settlement", _Line)


class _Day:
    """One day of an account being settled: opening, its lines, closing. What does not add up is our fault."""

    def __init__(self, account_id: UUID, day: date, opening: _Standing) -> None:
        self._day = day
        self._opening = self._standing = opening
        self._lines = 0
        self._moved_cents = 0
        self._digest = sha256(f"{account_id};{day};{reais(opening.balance_after_cents)}\n".encode())

    def begin(self) -> Row:
        return (self._day, "opening", *[None] * 3, None, self._opening.balance_after_cents, *[None] * 8)

    def take(self, line: _Line) -> Row:
        assert line.sequence == self._standing.sequence + 1, "the numbers of a ledger are dense"
        amount, balance = reais(line.amount_cents), reais(line.balance_after_cents)
        self._digest.update(
            f"{line.sequence};{line.entry_id};{iso(line.created_at)};{line.type};{amount};{balance}\n".encode()
        )
        self._standing = _Standing(line.sequence, line.balance_after_cents)
        self._moved_cents += line.amount_cents
        self._lines += 1
        references = [line.charge_id, line.payment_id, line.refund_id, line.withdrawal_id]
        return (
            self._day, "entry", line.sequence, line.created_at, line.type, line.amount_cents,
            line.balance_after_cents, str(line.entry_id), *[None if each is None else str(each) for each in references],
            line.external_id, None, None,
        )  # fmt: skip

    def end(self) -> tuple[Row, _Standing]:
        closing_cents = self._standing.balance_after_cents
        assert self._opening.balance_after_cents + self._moved_cents == closing_cents, (
            "a balance is the sum of its lines"
        )
        self._digest.update(f"{reais(closing_cents)}\n".encode())
        digest = self._digest.hexdigest()
        row = (self._day, "closing", *[None] * 3, self._moved_cents, closing_cents, *[None] * 6, self._lines, digest)
        return row, self._standing


async def _settlement(conn: Connection, asked: Asked) -> AsyncIterator[Row]:
    """Of each day an opening row, the ledger's lines and a closing row with their number and check sum."""
    assert asked.account_id is not None, "checked by ask()"
    day = asked.first
    begins, ends = day_begins(asked.first), day_ends(asked.last)
    before = await find_standing(conn, account_id=asked.account_id, at=begins)
    at = _Day(asked.account_id, day, before or _Standing(0, 0))
    yield at.begin()
    from_at, from_sequence = begins, 0
    while True:
        lines = await find_lines(
            conn,
            account_id=asked.account_id,
            from_at=from_at,
            from_sequence=from_sequence,
            before=ends,
            most=_LINES_PAGE,
        )
        for line in lines:
            on = line.created_at.astimezone(SAO_PAULO).date()
            while day < on:
                closing, standing = at.end()
                yield closing
                day += timedelta(days=1)
                at = _Day(asked.account_id, day, standing)
                yield at.begin()
            yield at.take(line)
        if len(lines) < _LINES_PAGE:
            break
        from_at, from_sequence = lines[-1].created_at, lines[-1].sequence + 1
    while True:
        closing, standing = at.end()
        yield closing
        if day == asked.last:
            return
        day += timedelta(days=1)
        at = _Day(asked.account_id, day, standing)
        yield at.begin()


# What webhooks are waiting for


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


async def _webhook_lanes(conn: Connection, asked: Asked) -> AsyncIterator[Row]:
    """One row for each account with an endpoint. One account is the range that holds only it."""
    after, last = ALL_ACCOUNTS, _LAST_ID
    if asked.account_id is not None:
        after, last = UUID(int=max(0, asked.account_id.int - 1)), asked.account_id
    while True:
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
        _totals(find_receipts),
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
        _aging,
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
        _totals(find_conversion),
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
        _totals(find_expiry),
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
        _totals(find_refunds),
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
        _totals(find_integrators),
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
        _totals(find_webhooks),
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
        _settlement,
        grouped=False,
        of_one_account=True,
        live=True,
    ),
)

REPORTS: Final[dict[str, Report]] = {report.name: report for report in _ALL}


def today_at(now: datetime) -> date:
    """The São Paulo day of an instant."""
    return now.astimezone(SAO_PAULO).date()
