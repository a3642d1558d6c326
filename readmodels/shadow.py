"""Shadow tables: temporary copies of the read tables, filled for one transaction by the statements that fill the real
tables."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import sql
from readmodels.projector import Projection, project
from readmodels.reports.fold import Fold, fold
from sql import Connection

_PAGE_ROWS_MAX: Final = 2_000


_journal_page = sql.many("shadow.page", int)
_make_journal_order = sql.run("shadow.order")
_discard_plans = sql.run("shadow.plans_anew")
_write_temporary_only = sql.run("shadow.real_kept")
_shadows_first = sql.run("shadow.shadow_first")
prefer_real_tables = sql.run("shadow.real_first")
_MAKE_SHADOW = sql.for_each("shadow.make", sql.run)
_COUNT_ROWS = sql.for_each("shadow.count", lambda name: sql.one(name, int))


class Shadows:
    """Temporary read tables, which `project` and `fold` fill from the journal rows listed in `journal_order`. After
    each filling a plain name means the real table again; `pg_temp.` names the shadow."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn

    @classmethod
    async def make(cls, conn: Connection, *tables: str) -> "Shadows":
        """Make these shadow tables. From now on the transaction can write temporary tables only: a projection whose
        shadow was not made fails instead of writing the real table."""
        shadows = await cls.make_to_write(conn, *tables)
        await _write_temporary_only(conn)
        return shadows

    @classmethod
    async def make_to_write(cls, conn: Connection, *tables: str) -> "Shadows":
        """Make these shadow tables in a transaction that also writes real ones. `tables` must name every table that
        will be projected to: a projection writes the real table where there is no shadow."""
        await _make_journal_order(conn)
        for table in tables:
            await _MAKE_SHADOW[table](conn)
        await _discard_plans(conn)
        return cls(conn)

    async def project(self, projections: Sequence[Projection]) -> int:
        """Project the listed journal rows into the shadows; returns their number."""
        rows = 0
        async for page in self._pages():
            await project(self.conn, page, projections)
            rows += len(page)
        await prefer_real_tables(self.conn)
        return rows

    async def fold(self, folds: Sequence[Fold], *, up_to: int = 2**63 - 1) -> int:
        """Fold the listed journal rows up to `up_to`; returns the number of rows listed."""
        rows = 0
        await _shadows_first(self.conn)
        async for page in self._pages():
            await fold(self.conn, [journal_id for journal_id in page if journal_id <= up_to], folds)
            rows += len(page)
        await prefer_real_tables(self.conn)
        return rows

    async def count(self, table: str) -> int:
        return await _COUNT_ROWS[table](self.conn)

    async def _pages(self) -> AsyncIterator[list[int]]:
        after = 0
        while journal_ids := await _journal_page(self.conn, after=after, limit=_PAGE_ROWS_MAX):
            yield journal_ids
            after += len(journal_ids)
