"""A page of a bank's list, such as of the PIX it received. Each item is read for itself: one that cannot be read is set
aside and hides no other."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Generic, TypeVar

from msgspec import Struct

Item = TypeVar("Item")

ABOUT_CHARACTERS_MAX: Final = 64
LATER_MAX: Final = 32
"""Pages named behind the next one: a bank may claim to have any number."""
_DIGEST_DIGITS: Final = 32


class UnreadableItem(Struct, frozen=True):
    """`about` is the item's own identifier, or a digest of it when it has none that can be read. `item` is what the
    bank said, and may name a person: it is kept sealed and never logged."""

    about: str
    item: bytes


class BankPage(Struct, Generic[Item], frozen=True, kw_only=True):
    """`following` is what to ask the next page with; None after the last. `pages` is how many there are in all, and
    `later` what to ask those behind the next one with, in their order, where the bank tells it."""

    items: list[Item]
    unreadable: list[UnreadableItem] = []
    following: str | None = None
    pages: int | None = None
    later: Sequence[str] = ()


class TooWide(Struct, frozen=True):
    """The bank does not list so much at once: ask for a shorter interval. `detail` is its own name for the reason."""

    detail: str


def numbered_page(items: list[Item], unreadable: list[UnreadableItem], *, page: int, pages: int) -> BankPage[Item]:
    """Page `page`, from 0, of a list of `pages` pages that are asked for by their numbers."""
    further = range(page + 1, min(pages, page + 2 + LATER_MAX))
    return BankPage(
        items=items,
        unreadable=unreadable,
        following=str(further[0]) if further else None,
        pages=pages,
        later=[str(each) for each in further[1:]],
    )


def unreadable_item(item: bytes, known_as: object) -> UnreadableItem:
    """`known_as` is what stands where the identifier should: used when it is one."""
    known = isinstance(known_as, str) and known_as.isalnum() and known_as.isascii()
    about = str(known_as) if known and len(str(known_as)) <= ABOUT_CHARACTERS_MAX else ""
    return UnreadableItem(about or f"sha256:{sha256(item).hexdigest()[:_DIGEST_DIGITS]}", item)
