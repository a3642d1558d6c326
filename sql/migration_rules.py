"""What a new file of sql/migrations may do to tables that are in use (docs/operations/migrations.md).

Two rules are checked: no statement may hold a lock that blocks reads or writes for longer than a moment, and the code
of the release before must go on working after the file. A table that the file itself creates is exempt: it has no
users.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sql.migration_files import MigrationFile

_QUOTED: Final = re.compile(r"\$(\w*)\$.*?\$\1\$|'(?:[^']|'')*'|--[^\n]*", re.S)
_NAME: Final = r"(?:IF (?:NOT )?EXISTS )?(?:ONLY )?(\w+)"
_MADE: Final = re.compile(rf"^CREATE (?:UNLOGGED )?TABLE {_NAME}")
_ALTERED: Final = re.compile(rf"^ALTER TABLE {_NAME} ")
_INDEXED: Final = re.compile(rf"^CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?\w+ ON {_NAME}")
# A default that calls a function is computed for each row, which rewrites the table. now() is not: it is one value for
# the whole transaction.
_CALL: Final = re.compile(r"(?!NOW\b|COALESCE\b|NUMERIC\b|VARCHAR\b|CHAR\b)\b[A-Z_]\w*\s*\(")
_COLUMN: Final = re.compile(
    r"\bADD (?:COLUMN )?(?!CONSTRAINT\b|PRIMARY\b|UNIQUE\b|CHECK\b|FOREIGN\b|NOT\b)(.*?)(?=, ADD\b|$)"
)

_ALWAYS: Final[Mapping[str, str]] = {
    r"\bRENAME\b": "code of one release knows one name: add the new one, take the old one away later",
    r"\bALTER (?:COLUMN )?\w+ (?:SET DATA )?TYPE\b": "rewrites the table under a lock: add a column and fill it",
    r"^ALTER TYPE\b": "code of the release before does not know the value or the shape",
    r"\bSET NOT NULL\b": "reads all of it under a lock: ADD CONSTRAINT ... NOT NULL ... NOT VALID, VALIDATE later",
    r"\bSET (?:UN)?LOGGED\b|\bSET TABLESPACE\b|^CLUSTER\b|^VACUUM FULL\b": "rewrites the table under a lock",
    r"^REINDEX (?!.*CONCURRENTLY)": "stops writes for as long as it reads",
    r"^LOCK\b|^TRUNCATE\b": "stops everything on that table",
    r"^REFRESH\b(?!.*CONCURRENTLY)": "stops reads of the view",
    r"^(?:UPDATE|DELETE|INSERT)\b|^WITH\b": "rows are filled in batches by a worker or a command, not in a migration",
    r"^(?:BEGIN|COMMIT|ROLLBACK|SET)\b": "transactions and timeouts are the runner's",
}
_TAKEN: Final = re.compile(
    r"^DROP (?:TABLE|VIEW|FUNCTION|SEQUENCE|INDEX|TYPE|TRIGGER)\b"
    r"|\bDROP (?:COLUMN|CONSTRAINT|DEFAULT|NOT NULL)\b|\bDROP (?=\w+$)"
)
_OUTSIDE: Final = (
    r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY \w+ ON ",
    r"DROP INDEX CONCURRENTLY IF EXISTS ",
    r"ALTER TABLE \w+ VALIDATE CONSTRAINT ",
)


def faults(files: Iterable[MigrationFile]) -> list[str]:
    """Return one line for each fault of these files, with its remedy. `files` are all the files, in order."""
    known: set[str] = set()
    found: list[str] = []
    for file in files:
        if not file.baseline:
            found += [f"{file.name}: {fault}" for fault in _faults_of(file, known)]
        known.add(file.name)
    return found


def _faults_of(file: MigrationFile, known: set[str]) -> Iterator[str]:
    if not re.fullmatch(r"\d{4}_\w+", file.name):
        yield "its name is four digits and a word"
    if file.needs is not None and file.needs not in known:
        yield f"contract after {file.needs}, which is no earlier file"
    bare = _QUOTED.sub(lambda quoted: "" if quoted[0].startswith("--") else "''", file.text)
    statements = [" ".join(each.upper().split()) for each in bare.split(";") if each.strip()]
    if file.outside:
        yield from _outside(statements)
        if file.needs is None and any(each.startswith("DROP") for each in statements):
            yield "taking something away is a contract: say after which file"
        return
    made = {match[1] for each in statements if (match := _MADE.match(each))}
    in_use = {match[1] for each in statements if (match := _ALTERED.match(each))} - made
    if len(in_use) > 1:
        yield f"locks of several tables at once ({', '.join(sorted(in_use)).lower()}): a file for each"
    for each in statements:
        table = _ALTERED.match(each) or _INDEXED.match(each)
        if table is None or table[1] not in made:
            yield from _in_use(each, contract=file.needs is not None)


def _outside(statements: list[str]) -> Iterator[str]:
    for each in statements:
        if not re.match("|".join(_OUTSIDE), each):
            yield (
                f"{_short(each)}: outside a transaction only what can be run twice: CREATE INDEX CONCURRENTLY,"
                " DROP INDEX CONCURRENTLY IF EXISTS, ALTER TABLE ... VALIDATE CONSTRAINT"
            )


def _in_use(statement: str, *, contract: bool) -> Iterator[str]:
    for form, why in _ALWAYS.items():
        if re.search(form, statement):
            yield f"{_short(statement)}: {why}"
    if _TAKEN.search(statement) and not contract:
        yield f"{_short(statement)}: taking away is a contract, of the release after the one that stopped using it"
    if "CONCURRENTLY" in statement:
        yield f"{_short(statement)}: a file of its own that begins with `-- outside a transaction`"
    elif _INDEXED.match(statement):
        yield f"{_short(statement)}: stops writes while it is built: CREATE INDEX CONCURRENTLY"
    yield from _constraints(statement)
    if _ALTERED.match(statement):
        for column in _COLUMN.findall(statement):
            yield from _column(column)


def _constraints(statement: str) -> Iterator[str]:
    if (
        re.search(r"\bADD (?:CONSTRAINT \w+ )?(?:CHECK|FOREIGN KEY|NOT NULL)\b", statement)
        and "NOT VALID" not in statement
    ):
        yield f"{_short(statement)}: reads the whole table under a lock: NOT VALID, and VALIDATE outside a transaction"
    if re.search(r"\bADD (?:CONSTRAINT \w+ )?(?:PRIMARY KEY|UNIQUE|EXCLUDE)\b(?!.*USING INDEX)", statement):
        yield f"{_short(statement)}: builds its index under a lock: build it CONCURRENTLY first, then USING INDEX"


def _column(column: str) -> Iterator[str]:
    default = re.search(r"\bDEFAULT (.*)", column)
    if default and _CALL.search(default[1]):
        yield f"ADD COLUMN {_short(column)}: a default that is worked out for each row rewrites the table"
    if re.search(r"\bGENERATED\b|\b(?:BIG|SMALL)?SERIAL\b", column):
        yield f"ADD COLUMN {_short(column)}: rewrites the table"
    if "NOT NULL" in column and default is None:
        yield f"ADD COLUMN {_short(column)}: code of the release before does not give it: a default, or NULL"
    if re.search(r"\b(?:UNIQUE|PRIMARY KEY|REFERENCES|CHECK)\b", column):
        yield f"ADD COLUMN {_short(column)}: its constraint is checked under a lock: add it apart, NOT VALID"


def _short(statement: str) -> str:
    return statement if len(statement) <= 60 else f"{statement[:57]}..."
