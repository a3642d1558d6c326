"""Partners' shares that went from one cell to another: what was sent is there, once, to the cent.

No snapshot spans two databases. So the cell that sends is read before the one that receives and after it: what it knew
to have arrived must be there, and what is there it must have sent, whatever was on its way meanwhile.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

import sql
from readmodels.verify_scope import Difference

WHAT: Final = "partner shares that another cell has sent and that are not here once, to the cent"


class SentTo(Struct, frozen=True):
    """To cell `other`. Cents are without their sign, so that both numbers only grow."""

    other: int
    arrived: int
    """Those that are marked as arrived."""
    arrived_cents: int
    shares: int
    cents: int


class ReceivedFrom(Struct, frozen=True):
    other: int
    shares: int
    cents: int


find_sent = sql.many("partner_share.crossed_sent", SentTo)
find_received = sql.many("partner_share.crossed_received", ReceivedFrom)


def compare_crossed(
    sent: Mapping[int, list[SentTo]], received: Mapping[int, list[ReceivedFrom]], sent_after: Mapping[int, list[SentTo]]
) -> dict[int, Difference]:
    """What differs, by the cell that receives; each mapping is by the cell that was asked, in the order of asking. A
    cell that did not answer is in none of them, and nothing is said of what it sends or receives."""
    least = {(cell, each.other): each for cell, found in sent.items() for each in found}
    most = {(cell, each.other): each for cell, found in sent_after.items() for each in found}
    there = {(each.other, cell): each for cell, found in received.items() for each in found}
    differing: dict[int, int] = {}
    for sender, receiver in least.keys() | most.keys() | there.keys():
        if sender not in sent or sender not in sent_after or receiver not in received:
            continue
        low, high = least.get((sender, receiver)), most.get((sender, receiver))
        found = there.get((sender, receiver), ReceivedFrom(sender, 0, 0))
        arrived = (low.arrived, low.arrived_cents) if low else (0, 0)
        whole = (high.shares, high.cents) if high else (0, 0)
        if not (arrived[0] <= found.shares <= whole[0] and arrived[1] <= found.cents <= whole[1]):
            apart = max(arrived[0] - found.shares, found.shares - whole[0], 1)
            differing[receiver] = differing.get(receiver, 0) + apart
    return {cell: Difference("books", WHAT, rows) for cell, rows in differing.items()}
