"""Every statement of sql/queries is used, is accepted by PostgreSQL, and fits the row it is read into."""

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest

import sql

ROOMS = ("api", "web", "workers", "commands", "readmodels", "banks", "cli", "sql")


@pytest.fixture(scope="session")
def bound() -> dict[str, type[msgspec.Struct] | None]:
    """What is bound once every module is imported. Programs (`__main__`) bind nothing."""
    for room in ROOMS:
        package = importlib.import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            # cli.asgi is the application itself: importing it needs a configured environment.
            if not module.name.endswith("__main__") and module.name != "cli.asgi":
                importlib.import_module(module.name)
    return sql.BOUND


def test_every_statement_is_bound_somewhere(bound: dict[str, type[msgspec.Struct] | None]) -> None:
    assert sorted(sql.STATEMENTS.keys() - bound.keys()) == []


@pytest.mark.parametrize("name", sorted(sql.STATEMENTS))
async def test_a_statement_fits_the_database_and_its_row(
    conn: Any, bound: dict[str, type[msgspec.Struct] | None], name: str
) -> None:
    if name.startswith("verify."):  # compares with tables that exist for as long as it runs
        for shadow in (each for each in sql.STATEMENTS if each.startswith("rebuild.shadow_")):
            await conn.execute(sql.STATEMENTS[shadow].text)
    elif name.startswith("rebuild.fill_"):
        await conn.execute(sql.STATEMENTS[name.replace("fill_", "shadow_")].text)
    prepared = await conn.prepare(sql.STATEMENTS[name].text)
    assert len(prepared.get_parameters()) == len(sql.STATEMENTS[name].parameters)
    row = bound.get(name)
    if row is not None:
        assert [column.name for column in prepared.get_attributes()] == list(row.__struct_fields__)
