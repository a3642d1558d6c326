"""Check partner shares sent from one cell to another: each share sent has arrived once, to the cent.

No snapshot spans two databases. So the sending cell is read before and after the receiving cell: the shares it had
marked as arrived at the first reading must be in the receiving cell, and the receiving cell must hold no more than it
had sent at the second, whatever was on its way meanwhile.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

import sql
from readmodels.verify_scope import Difference

CROSSED_SHARES_DIFFERENCE: Final = "partner shares that another cell has sent and that are not here once, to the cent"


class SentTo(Struct, frozen=True):
    """The shares that a cell has sent to cell `other`. Cents are summed without their sign, so that sums only grow."""

    other: int
    arrived: int
    """The number of shares marked as arrived."""
    arrived_cents: int
    shares: int
    cents: int


class ReceivedFrom(Struct, frozen=True):
    other: int
    shares: int
    cents: int


find_sent = sql.many("partner_share.crossed_sent", SentTo)
find_received = sql.many("partner_share.crossed_received", ReceivedFrom)


def compare_crossed_shares(
    sent: Mapping[int, list[SentTo]], received: Mapping[int, list[ReceivedFrom]], sent_after: Mapping[int, list[SentTo]]
) -> dict[int, Difference]:
    """The differences, by receiving cell. The mappings, by the cell that was read, come in the order of reading. A cell
    that could not be read is in none of them, and the shares it sends or receives are not judged."""
    least_by_pair = {(cell, each.other): each for cell, totals in sent.items() for each in totals}
    most_by_pair = {(cell, each.other): each for cell, totals in sent_after.items() for each in totals}
    received_by_pair = {(each.other, cell): each for cell, totals in received.items() for each in totals}
    differing: dict[int, int] = {}
    for sender, receiver in least_by_pair.keys() | most_by_pair.keys() | received_by_pair.keys():
        if sender not in sent or sender not in sent_after or receiver not in received:
            continue
        least, most = least_by_pair.get((sender, receiver)), most_by_pair.get((sender, receiver))
        total = received_by_pair.get((sender, receiver), ReceivedFrom(sender, 0, 0))
        arrived = (least.arrived, least.arrived_cents) if least else (0, 0)
        all_sent = (most.shares, most.cents) if most else (0, 0)
        if not (arrived[0] <= total.shares <= all_sent[0] and arrived[1] <= total.cents <= all_sent[1]):
            shares = max(arrived[0] - total.shares, total.shares - all_sent[0], 1)
            differing[receiver] = differing.get(receiver, 0) + shares
    return {cell: Difference("books", CROSSED_SHARES_DIFFERENCE, rows) for cell, rows in differing.items()}
