"""A page of a bank's list, such as of received PIX. Each item is parsed separately: an unreadable item is set aside and
hides no other."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Generic, TypeVar

from msgspec import Struct

Item = TypeVar("Item")

ABOUT_CHARACTERS_MAX: Final = 64
LATER_MAX: Final = 32
"""The most pages listed beyond the next one: a bank may claim to have any number of pages."""
_DIGEST_DIGITS: Final = 32


class UnreadableItem(Struct, frozen=True):
    """An item of a bank's list that cannot be parsed. `about` is the item's own identifier, or a digest of the item if
    it has no readable identifier. `item` is the bank's text, which may name a person: it is kept sealed and never
    logged."""

    about: str
    item: bytes


class BankPage(Struct, Generic[Item], frozen=True, kw_only=True):
    """One page of a list. `following` is the `after` of the next page, None after the last page. If the bank tells
    them, `pages` is the total number of pages, and `later` holds the `after` values of the pages beyond the next one,
    in order."""

    items: list[Item]
    unreadable: list[UnreadableItem] = []
    following: str | None = None
    pages: int | None = None
    later: Sequence[str] = ()


class TooWide(Struct, frozen=True):
    """The bank does not list so much at once; the caller asks for a shorter interval. `detail` is the bank's code, or
    says what it answered."""

    detail: str


FIRST_PAGE_AGAIN: Final = TooWide("the first page again")
"""Taken for the page that was asked for, it would hide that page's money. A shorter interval has one page only."""


def numbered_page(items: list[Item], unreadable: list[UnreadableItem], *, page: int, pages: int) -> BankPage[Item]:
    """Return page `page` (from 0) of a list whose `pages` pages are requested by number."""
    further = range(page + 1, min(pages, page + 2 + LATER_MAX))
    return BankPage(
        items=items,
        unreadable=unreadable,
        following=str(further[0]) if further else None,
        pages=pages,
        later=[str(each) for each in further[1:]],
    )


def unreadable_item(item: bytes, known_as: object) -> UnreadableItem:
    """Set an item aside. `known_as` is the value found in place of the identifier, used if it is a plausible one."""
    known = isinstance(known_as, str) and known_as.isalnum() and known_as.isascii()
    about = str(known_as) if known and len(str(known_as)) <= ABOUT_CHARACTERS_MAX else ""
    return UnreadableItem(about or f"sha256:{sha256(item).hexdigest()[:_DIGEST_DIGITS]}", item)
