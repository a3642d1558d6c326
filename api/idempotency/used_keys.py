"""Used idempotency keys: rows of `idempotency`, looked up in batches, and their replays counted in batches."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from api.idempotency.lock import KeyName
from domain.mode import Mode, Owner
from runtime.batching import Batcher
from runtime.postgres import Pool, session

_KEYS_MAX = 200


class UsedKey(Struct, frozen=True, gc=False):
    """A key, the request it was used for, and the resource it made."""

    account_id: UUID
    test: bool
    key: str
    fingerprint: bytes
    resource_type: str
    resource_id: UUID
    first_used_at: datetime
    replay_count: int


find_keys = sql.many("idempotency.find", UsedKey)
count_replays = sql.run("idempotency.count_replays")


class UsedKeys:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Batchers per mode, so that replays in the sandbox do not delay production.
        self._find_batchers: dict[Mode, Batcher[KeyName, UsedKey | None]] = {
            mode: Batcher(self._find_batch, lanes=1, batch_max=_KEYS_MAX) for mode in Mode
        }
        self._replay_batchers: dict[Mode, Batcher[KeyName, None]] = {
            mode: Batcher(self._count_batch, lanes=1, batch_max=_KEYS_MAX) for mode in Mode
        }

    async def find(self, name: KeyName) -> UsedKey | None:
        return await self._find_batchers[name[0].mode].submit(name)

    async def count_replay(self, name: KeyName) -> None:
        await self._replay_batchers[name[0].mode].submit(name)

    async def _find_batch(self, names: Sequence[KeyName]) -> list[UsedKey | None]:
        distinct = sorted(set(names))
        async with session(self._pool) as conn:
            rows = await find_keys(conn, **_key_columns(distinct))
        by_name = {(Owner.of(row.account_id, row.test), row.key): row for row in rows}
        return [by_name.get(name) for name in names]

    async def _count_batch(self, names: Sequence[KeyName]) -> list[None]:
        times = Counter(names)
        distinct = sorted(times)
        async with session(self._pool) as conn:
            await count_replays(conn, **_key_columns(distinct), times=[times[name] for name in distinct])
        return [None] * len(names)


def _key_columns(names: Sequence[KeyName]) -> dict[str, list[object]]:
    return {
        "account_ids": [owner.account_id for owner, _ in names],
        "tests": [owner.test for owner, _ in names],
        "keys": [key for _, key in names],
    }
