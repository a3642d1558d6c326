"""The scopes that a person may grant to a credential: those that the person's role may use (contract section 16)."""

from collections.abc import Collection
from typing import Final

from commands.merchants.merchants import ALL_SCOPES
from domain.mode import Mode

MONEY_SCOPES: Final = frozenset({"refunds:create", "withdrawals:create", "schedules:write"})
"""Scopes with which a program moves money, or charges payers by itself."""
_PRODUCTION_SCOPES: Final = {
    "owner": frozenset(ALL_SCOPES),
    "finance": frozenset({"payments:read", "charges:read"}),
    "developer": frozenset(scope for scope in ALL_SCOPES if scope.startswith("charges:")),
}
_TEST_SCOPES: Final = {"owner": frozenset(ALL_SCOPES), "developer": frozenset(ALL_SCOPES)}


def grantable(role: str, mode: Mode) -> frozenset[str]:
    """Returns the scopes that a person of this role may grant, rotate and keep in a credential of this mode."""
    return (_TEST_SCOPES if mode.test else _PRODUCTION_SCOPES).get(role, frozenset())


def may_revoke(role: str, scopes: Collection[str], mode: Mode) -> bool:
    """Whether the role may revoke a credential with these scopes: owners and developers any, other roles those that
    they could have created."""
    return role in ("owner", "developer") or grantable(role, mode).issuperset(scopes)


def moves_money(scopes: Collection[str], mode: Mode) -> bool:
    return not mode.test and not MONEY_SCOPES.isdisjoint(scopes)
