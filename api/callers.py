"""Callers: access tokens looked up by their hash, cached for a few seconds.

A revoked credential stops working within REMEMBER_S everywhere (contract section 3: 5 s). A cached test caller also
holds the position of its account's sandbox clock. It is cached for a shorter time, so that the request that advances
the clock can wait until no process has the old position (docs/decisions/0013).
"""

import time
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct

import sql
from commands.charges.issuer import Issuer
from commands.sandbox_clock import SPREAD_S
from domain.errors import Code, Refused
from domain.mode import Mode, Owner
from runtime.batching import Batcher
from runtime.postgres import Pool, session

REMEMBER_S = 3.0
REMEMBER_TEST_S = SPREAD_S
# Unknown tokens are cached too, so that a guesser who repeats them costs us no database lookups.
REMEMBER_UNKNOWN_S = 1.0
_CALLERS_MAX = 50_000


class Caller(Struct, frozen=True, gc=False):
    """A token with the account, mode and scopes that it fixes, and the facts of the account that requests need."""

    token_hash: bytes
    client_id: str
    account_id: UUID
    test: bool
    scopes: list[str]
    expires_at: datetime
    approved: bool
    name: str
    city: str
    pix_key: str
    rate_per_s: int | None
    rate_burst: int | None
    ahead_s: int = 0
    """Seconds by which the account's sandbox clock is ahead of real time; 0 in production."""

    @property
    def mode(self) -> Mode:
        return Mode.of(self.test)

    @property
    def owner(self) -> Owner:
        return Owner.of(self.account_id, self.test)

    @property
    def issuer(self) -> Issuer:
        return Issuer(
            account_id=self.account_id,
            test=self.test,
            name=self.name,
            city=self.city,
            pix_key=self.pix_key,
            actor=self.client_id,
            ahead_s=self.ahead_s,
        )

    @property
    def remembered_s(self) -> float:
        return REMEMBER_TEST_S if self.test else REMEMBER_S


_CAUSE_MESSAGES: Final = {
    "missing": "There is no access token: send the header Authorization: Bearer <access_token>.",
    "malformed": "The Authorization header is not one bearer token: Authorization: Bearer <access_token>.",
    "unknown": "This access token is nobody's: it is mistyped, its credential was revoked, or it expired long ago. "
    "POST /v1/oauth/token gives one for client_id and client_secret.",
    "expired": "This access token has expired: get a new one from POST /v1/oauth/token.",
}


def unauthenticated(cause: Literal["missing", "malformed", "unknown", "expired"]) -> Refused:
    """The 401 refusal with the message of its cause. Unknown and revoked tokens share a message: the lookup finds
    neither."""
    return Refused(Code.UNAUTHENTICATED, message=_CAUSE_MESSAGES[cause], cause=cause)


find_callers = sql.many("credential.callers", Caller)


class Callers:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[bytes, tuple[Caller | None, float]] = {}
        self._batcher: Batcher[bytes, Caller | None] = Batcher(self._find_batch, lanes=1, batch_max=200)

    async def authenticate(self, authorizations: Sequence[bytes], *, now: datetime) -> Caller:
        """The caller that a request's Authorization headers name. Refused(UNAUTHENTICATED), with the cause, when the
        header is missing or not one bearer token, or when the token is unknown, revoked or expired."""
        if not authorizations:
            raise unauthenticated("missing")
        authorization = authorizations[0]
        if len(authorizations) > 1 or authorization[:7].lower() != b"bearer " or len(authorization) > 512:
            raise unauthenticated("malformed")
        token_hash = sha256(authorization[7:].strip()).digest()
        clock = time.monotonic()
        cached = self._known.get(token_hash)
        if cached is None or cached[1] < clock:
            caller = await self._batcher.submit(token_hash)
            if len(self._known) >= _CALLERS_MAX:
                self._known.clear()
            self._known[token_hash] = (caller, clock + (caller.remembered_s if caller else REMEMBER_UNKNOWN_S))
        else:
            caller = cached[0]
        if caller is None:
            raise unauthenticated("unknown")
        if caller.expires_at <= now:
            raise unauthenticated("expired")
        return caller

    async def reread(self, caller: Caller) -> Caller:
        """The caller as the database has it now, for refusals that must not rest on the cache."""
        clock = time.monotonic()
        fresh = await self._batcher.submit(caller.token_hash)
        if fresh is None:
            raise unauthenticated("unknown")
        self._known[caller.token_hash] = (fresh, clock + fresh.remembered_s)
        return fresh

    async def _find_batch(self, token_hashes: Sequence[bytes]) -> list[Caller | None]:
        async with session(self._pool) as conn:
            rows = await find_callers(conn, token_hashes=list(set(token_hashes)))
        by_hash = {row.token_hash: row for row in rows}
        return [by_hash.get(each) for each in token_hashes]
