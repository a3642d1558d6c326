"""Every statement of sql/queries is used, is accepted by PostgreSQL, and fits the row it is read into."""

import importlib
import pkgutil
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

import sql

PACKAGES = ("api", "web", "workers", "commands", "readmodels", "banks", "cli", "runtime", "sql")


def _name_in_file(name: str) -> str:
    """Returns the name in the file of the statement that this variant comes from."""
    return name.split("+")[0].removesuffix("_asc").removesuffix("_desc")


VARIANTS = {
    name: list(variants) for name, variants in groupby(sorted(sql.STATEMENTS, key=_name_in_file), key=_name_in_file)
}


@pytest.fixture(scope="session")
def bound() -> dict[str, type[Any] | None]:
    """All statements that are bound after every module was imported. Programs (`__main__`) bind none."""
    for package_name in PACKAGES:
        package = importlib.import_module(package_name)
        for module in pkgutil.walk_packages(package.__path__, f"{package_name}."):
            # cli.run.asgi is the application itself: importing it needs a configured environment.
            if not module.name.endswith("__main__") and module.name != "cli.run.asgi":
                importlib.import_module(module.name)
    return sql.BOUND


def test_every_statement_is_bound_by_a_module(bound: dict[str, type[Any] | None]) -> None:
    assert sorted(sql.STATEMENTS.keys() - bound.keys()) == []


@pytest.mark.parametrize("name", VARIANTS)
async def test_a_statement_fits_the_database_and_its_row(
    conn: Any, bound: dict[str, type[Any] | None], name: str
) -> None:
    if name.startswith(("verify", "rebuild", "shadow")):  # These statements use tables that exist only during a run.
        for shadow in ("shadow.order", *VARIANTS["shadow.make"]):
            await conn.execute(sql.STATEMENTS[shadow].text)
    for variant in VARIANTS[name]:
        prepared = await conn.prepare(sql.STATEMENTS[variant].text)
        assert len(prepared.get_parameters()) == len(sql.STATEMENTS[variant].parameters)
        row = bound.get(variant)
        if row is not None:
            columns = [column.name for column in prepared.get_attributes()]
            assert columns == list(row.__struct_fields__) if issubclass(row, msgspec.Struct) else len(columns) == 1


def test_a_list_is_expanded_into_a_statement_for_each_order_and_each_set_of_filters() -> None:
    found = sql.parse(
        "-- name: page\n-- both ways\nSELECT id FROM t WHERE id {<} :id\n  AND kind = :kind -- when kind\n"
        "ORDER BY id {DESC};\n-- name: one\nSELECT id FROM t;\n"
    )
    assert {name: statement.parameters for name, statement in found.items()} == {
        "page_desc": ("id",), "page_asc": ("id",), "page_desc+kind": ("id", "kind"), "page_asc+kind": ("id", "kind"),
        "one": (),
    }  # fmt: skip
    assert found["page_asc"].text == "SELECT id FROM t WHERE id > $1\nORDER BY id ASC"
    assert found["page_desc"].text == "SELECT id FROM t WHERE id < $1\nORDER BY id DESC"


@pytest.mark.parametrize("name", [name for name, each in sql.STATEMENTS.items() if "SKIP LOCKED" in each.text])
def test_no_claim_with_skip_locked_is_inside_an_in_subquery(name: str) -> None:
    """A plan may run an IN subquery again for each row. Each run skips the rows that the earlier runs locked, so the
    statement claims more rows than its limit."""
    assert not re.search(r"\bIN \(\s*SELECT(?:(?!\n *\)).)*SKIP LOCKED", sql.STATEMENTS[name].text, re.DOTALL)


# New functions and syntax, from the release notes of PostgreSQL 16, 17 and 18.
_NEWER = re.compile(
    r"\b(any_value|array_sample|array_shuffle|array_sort|array_reverse|casefold|crc32c?|date_add|date_subtract|erfc?|"
    r"json_array|json_arrayagg|json_object|json_objectagg|json_exists|json_query|json_scalar|json_serialize|json_table|"
    r"json_value|jsonb_strip_nulls\([^)]*,|pg_input_is_valid|random_normal|random\([^)]|system_user|to_bin|to_oct|"
    r"unicode_assigned|uuid_extract_\w+|uuidv[47]|xmltext)\s*\(|\bIS JSON\b|\bAT LOCAL\b|\bWITHOUT OVERLAPS\b|"
    r"\bWHEN NOT MATCHED BY SOURCE\b|\bmerge_action\b|\bRETURNING WITH\b|\bRETURNING\b[^;)]*\b(OLD|NEW)\.|"
    r"\btransaction_timeout\b|"
    r"\bVIRTUAL\b|\b0[xob][0-9a-f]|\b\d+_\d",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", sorted(Path(sql.__file__).parent.rglob("*.sql")), ids=lambda path: path.stem)
def test_no_sql_file_needs_a_server_newer_than_postgresql_15(path: Path) -> None:
    """docs/production.md promises version 15. _NEWER does not contain functions that are called only after a check of
    the server's version (expect_few_values)."""
    text = re.sub(r"--[^\n]*", "", path.read_text(encoding="utf-8"))
    assert [found[0] for found in _NEWER.finditer(text)] == []
