"""A new migration file that would block requests, or break the code of the previous release, is refused."""

from pathlib import Path

import pytest

from sql.migration_files import MigrationFile, read_migrations
from sql.migration_rules import faults

_BASE = MigrationFile("0001_base", "CREATE TABLE charge (id int);", baseline=True)

DANGEROUS = {
    "ALTER TABLE charge ALTER COLUMN note SET NOT NULL": "NOT VALID",
    "ALTER TABLE charge ALTER note TYPE bigint": "add a column",
    "ALTER TABLE charge RENAME COLUMN note TO remark": "one name",
    "ALTER TABLE charge RENAME TO bill": "one name",
    "ALTER TABLE charge DROP COLUMN note": "contract",
    "ALTER TABLE charge DROP note": "contract",
    "ALTER TABLE charge ALTER COLUMN note DROP DEFAULT": "contract",
    "DROP TABLE charge": "contract",
    "DROP VIEW charge_view": "contract",
    "ALTER TYPE mood ADD VALUE 'good'": "does not know",
    "ALTER TABLE charge ADD COLUMN at timestamptz DEFAULT clock_timestamp()": "for each row",
    "ALTER TABLE charge ADD COLUMN id2 uuid NOT NULL DEFAULT gen_random_uuid()": "for each row",
    "ALTER TABLE charge ADD at timestamptz DEFAULT now(), ADD id2 float DEFAULT random()": "for each row",
    "ALTER TABLE charge ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY": "rewrites",
    "ALTER TABLE charge ADD COLUMN twice bigint GENERATED ALWAYS AS (cents * 2) STORED": "rewrites",
    "ALTER TABLE charge ADD COLUMN number bigserial": "rewrites",
    "ALTER TABLE charge ADD COLUMN note text NOT NULL": "a default",
    "ALTER TABLE charge ADD COLUMN note text REFERENCES account": "add it apart",
    "ALTER TABLE charge ADD COLUMN note text UNIQUE": "add it apart",
    "ALTER TABLE charge ADD CONSTRAINT c CHECK (cents > 0)": "NOT VALID",
    "ALTER TABLE charge ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES account (a)": "NOT VALID",
    "ALTER TABLE charge ADD CONSTRAINT c UNIQUE (a)": "USING INDEX",
    "CREATE INDEX charge_note ON charge (note)": "CONCURRENTLY",
    "CREATE UNIQUE INDEX charge_note ON charge (note)": "CONCURRENTLY",
    "CREATE INDEX CONCURRENTLY charge_note ON charge (note)": "outside a transaction",
    "UPDATE charge SET note = ''": "batches",
    "WITH old AS (TABLE charge) DELETE FROM charge": "batches",
    "LOCK TABLE charge": "stops everything",
    "TRUNCATE charge": "stops everything",
    "VACUUM FULL charge": "rewrites",
    "ALTER TABLE charge ADD a int; ALTER TABLE account ADD b int": "a file for each",
}

HARMLESS = [
    "CREATE TABLE note (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp());"
    " CREATE INDEX note_at ON note (at); ALTER TABLE note ALTER at SET NOT NULL",
    "ALTER TABLE charge ADD COLUMN note text, ADD COLUMN at timestamptz NOT NULL DEFAULT now()",
    "ALTER TABLE charge ADD COLUMN cents numeric(12, 2) NOT NULL DEFAULT 0, ADD COLUMN doc jsonb DEFAULT '{}'",
    "ALTER TABLE charge ADD CONSTRAINT c NOT NULL note NOT VALID",
    "ALTER TABLE charge ADD CONSTRAINT c CHECK (cents > 0) NOT VALID",
    "ALTER TABLE charge ADD CONSTRAINT c UNIQUE USING INDEX charge_a",
    "ALTER TABLE charge SET (autovacuum_vacuum_threshold = 100)",
    "CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE sql AS $$ UPDATE charge SET note = ''; DROP TABLE x $$",
    "CREATE VIEW bill AS SELECT id FROM charge -- and not: DROP TABLE charge",
    "COMMENT ON TABLE charge IS 'DROP TABLE charge; it''s'",
]


def _faults_of(text: str, *, outside: bool = False, needs: str | None = None) -> list[str]:
    return faults([_BASE, MigrationFile("0016_new", text, baseline=False, outside=outside, needs=needs)])


@pytest.mark.parametrize("statement", DANGEROUS)
def test_a_statement_that_blocks_requests_or_breaks_the_previous_release_is_refused_with_advice(statement: str) -> None:
    found = _faults_of(f"-- expand\n{statement};\n")
    assert any(DANGEROUS[statement] in each for each in found), found


@pytest.mark.parametrize("text", HARMLESS)
def test_statements_that_only_add_are_accepted(text: str) -> None:
    assert _faults_of(f"-- expand\n{text};\n") == []


def test_a_column_is_dropped_only_by_a_contract_file_that_names_an_earlier_file() -> None:
    text = "-- contract after 0001_base\nALTER TABLE charge DROP COLUMN note;\n"
    assert _faults_of(text, needs="0001_base") == []
    assert "no earlier file" in _faults_of(text, needs="0017_later")[0]
    assert _faults_of("ALTER TABLE charge ALTER COLUMN note SET NOT NULL", needs="0001_base") != []


def test_a_file_outside_a_transaction_contains_only_statements_that_may_run_twice() -> None:
    good = "CREATE INDEX CONCURRENTLY a ON charge (a);\nALTER TABLE charge VALIDATE CONSTRAINT c;\n"
    assert _faults_of(good, outside=True) == []
    assert _faults_of("CREATE INDEX a ON charge (a);", outside=True) != []
    assert "contract" in _faults_of("DROP INDEX CONCURRENTLY IF EXISTS a;", outside=True)[0]
    assert _faults_of("DROP INDEX CONCURRENTLY IF EXISTS a;", outside=True, needs="0001_base") == []
    assert _faults_of("ALTER TABLE charge ADD a int;", outside=True) != []


def test_every_migration_file_of_this_version_keeps_the_rules() -> None:
    files = read_migrations()
    assert [each.name for each in files.values()] == sorted(files)
    assert faults(files.values()) == []


@pytest.mark.parametrize("first", ["", "-- ", "-- , contract after 0001_base", "-- contract", "-- a comment"])
def test_a_migration_file_without_a_valid_first_line_is_refused(tmp_path: Path, first: str) -> None:
    (tmp_path / "0016_new.sql").write_text(f"{first}\nALTER TABLE charge ADD a int;\n")
    with pytest.raises(ValueError, match="first line"):
        read_migrations(tmp_path)


@pytest.mark.parametrize(
    ("first", "outside", "needs"),
    [
        ("-- expand", False, None),
        ("-- outside a transaction", True, None),
        ("-- contract after 0001_base", False, "0001_base"),
        ("-- outside a transaction, contract after 0001_base", True, "0001_base"),
    ],
)
def test_the_first_line_of_a_migration_file_states_its_kind(
    tmp_path: Path, first: str, outside: bool, needs: str | None
) -> None:
    (tmp_path / "0016_new.sql").write_text(f"{first}\nSELECT 1;\n")
    read = read_migrations(tmp_path)["0016_new"]
    assert (read.outside, read.needs) == (outside, needs)
