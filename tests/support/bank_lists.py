"""Reads a bank's lists completely: every page of every interval."""

from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta

from banks.boletos import PaidBoleto
from banks.lists import BankPage, Item, TooWide
from banks.protocol import BOLETO_DAYS_MAX, RECEIVED_WIDTH_MAX, BoletoBank, Done, PixBank, Unknown
from banks.received import ReceivedPix


async def received(pix: PixBank, since: datetime, until: datetime) -> Done[list[ReceivedPix]] | TooWide | Unknown:
    found: dict[str, ReceivedPix] = {}
    while since < until:
        upto = min(until, since + RECEIVED_WIDTH_MAX)
        items = await every_page(lambda after, since=since, upto=upto: pix.received_page(since, upto, after))  # type: ignore[misc]
        if not isinstance(items, list):
            return items
        found |= {each.end_to_end_id: each for each in items}
        since = upto
    return Done(list(found.values()))


async def boletos_paid(boletos: BoletoBank, since: date, until: date) -> Done[list[PaidBoleto]] | TooWide | Unknown:
    found: dict[str, PaidBoleto] = {}
    while since <= until:
        upto = min(until, since + timedelta(days=BOLETO_DAYS_MAX - 1))
        items = await every_page(lambda after, since=since, upto=upto: boletos.paid_page(since, upto, after))  # type: ignore[misc]
        if not isinstance(items, list):
            return items
        found |= {each.number: each for each in items}
        since = upto + timedelta(days=1)
    return Done(list(found.values()))


async def every_page(
    ask: Callable[[str | None], Awaitable[Done[BankPage[Item]] | TooWide | Unknown]],
) -> list[Item] | TooWide | Unknown:
    items: list[Item] = []
    after = None
    while True:
        answer = await ask(after)
        if not isinstance(answer, Done):
            return answer
        items += answer.value.items
        after = answer.value.following
        if after is None:
            return items
