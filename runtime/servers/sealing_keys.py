"""The keys of SECRET_KEY that a database was written with. A process that holds others must not write into it.

It could open nothing that is there, and would seal data that no other process opens, under a key id that all have.
"""

from collections.abc import Mapping

import structlog
from msgspec import Struct

import sql
from runtime.postgres import Pool, session
from runtime.seal import Seal
from sql import Connection


class WrongKey(Exception):
    """SECRET_KEY is not that of the database. The message names ids alone."""


class _KnownKey(Struct, frozen=True):
    key_id: int
    fingerprint: str


_log = structlog.get_logger()

_find_known = sql.many("sealing_key.known", _KnownKey)
_store_keys = sql.run("sealing_key.meet")


async def check_keys(pool: Pool, seal: Seal) -> None:
    """As check_keys_on, on a connection of the pool."""
    async with session(pool) as conn:
        await check_keys_on(conn, seal)


async def check_keys_on(conn: Connection, seal: Seal) -> None:
    """As record_keys. A key that the database knows and we lack is logged: after a restore, or with an earlier
    SECRET_KEY, what it sealed opens nowhere, which shows only row by row."""
    if lacking := await record_keys(conn, seal):
        _log.warning("sealing_keys_lacking", key_ids=lacking)


async def record_keys(conn: Connection, seal: Seal) -> list[int]:
    """Store the keys that are new beside a known key, or the first keys of all; returns the ids of the known keys that
    we lack. WrongKey when an id is another key's, or when the database knows none of our keys."""
    ours, known = seal.fingerprints(), await _read_known(conn)
    _check_known(ours, known)
    if ours.keys() - known.keys():
        await _store_keys(conn, key_ids=list(ours), fingerprints=list(ours.values()))
        _check_known(ours, await _read_known(conn))  # another process may have been first
    return sorted(known.keys() - ours.keys())


async def compare_keys(conn: Connection, seal: Seal) -> None:
    """WrongKey as above. Stores nothing: a key tried by hand is not one that the database is to be used with."""
    _check_known(seal.fingerprints(), await _read_known(conn))


async def _read_known(conn: Connection) -> dict[int, str]:
    return {row.key_id: row.fingerprint for row in await _find_known(conn)}


def _check_known(ours: Mapping[int, str], known: Mapping[int, str]) -> None:
    if known and not ours.items() & known.items():
        raise WrongKey("no key of SECRET_KEY is one that the database was written with")
    for id, fingerprint in ours.items():
        if known.get(id, fingerprint) != fingerprint:
            raise WrongKey(f"key {id} of SECRET_KEY is not the one that the database was written with")
