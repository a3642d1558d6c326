"""The kinds and lanes of commands/bank_orders/kinds.py are those of the schema."""

import re
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from commands.bank_orders.kinds import OrderKind
from runtime.ids import new_id

PLACE = """
INSERT INTO bank_order (order_id, test, bank, kind, request, due_at, created_at)
VALUES ($1, true, '001', $2, '{}', $3, $3) RETURNING lane
"""


@pytest.mark.parametrize("kind", OrderKind)
async def test_the_schema_puts_each_kind_into_its_lane(conn: Any, kind: OrderKind) -> None:
    assert await conn.fetchval(PLACE, new_id(), kind, datetime.now(UTC)) == kind.lane


async def test_the_schema_knows_no_other_kind(conn: Any) -> None:
    defined = await conn.fetchval(
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum"
        " WHERE adrelid = 'bank_order'::regclass AND attname = 'lane'"
    )
    named = set(re.findall(r"'(\w+)'", defined))
    assert named == {*OrderKind, *(kind.lane for kind in OrderKind)}
    with pytest.raises(asyncpg.NotNullViolationError):
        await conn.fetchval(PLACE, new_id(), "cob_regsiter", datetime.now(UTC))
