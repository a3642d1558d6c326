"""The files of sql/migrations, and the kind of each, which its first line names (docs/operations/migrations.md).

`baseline/` sets up an empty database. Each file after it is released once and never changed: `-- expand` adds what does
not disturb the code of the release before; `-- contract after NAME` removes what no code that knows the file NAME uses;
`-- outside a transaction` holds statements that PostgreSQL refuses to run inside one.
"""

import hashlib
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_FIRST: Final = re.compile(
    r"-- (?:expand|(?P<outside>outside a transaction)"
    r"|(?:(?P<both>outside a transaction), )?contract after (?P<needs>\w+))"
)
_COMMENT: Final = re.compile(r"--[^\n]*")
_INDEX: Final = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ON ", re.I)


class MigrationFile(Struct, frozen=True):
    name: str
    text: str
    baseline: bool
    outside: bool = False
    needs: str | None = None
    """For a contract: the file that code must know to run on the schema this one leaves."""

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def statements(self) -> list[str]:
        """The file's statements without comments. Splits at every semicolon, which would break a function's body; files
        outside a transaction hold no functions."""
        return [" ".join(each.split()) for each in _COMMENT.sub("", self.text).split(";") if each.strip()]


def read_migrations(folder: Path = MIGRATIONS) -> dict[str, MigrationFile]:
    """Return the files by name, in the order in which they are applied."""
    paths = [*sorted((folder / "baseline").glob("*.sql")), *sorted(folder.glob("*.sql"))]
    found = [_read(path) for path in paths]
    return {each.name: each for each in found}


def _read(path: Path) -> MigrationFile:
    text = path.read_bytes().decode()
    if path.parent.name == "baseline":
        return MigrationFile(path.stem, text, baseline=True)
    first = _FIRST.fullmatch(text.partition("\n")[0])
    if first is None:
        raise ValueError(f"{path.name} must say in its first line what it is: see docs/operations/migrations.md")
    return MigrationFile(
        path.stem, text, baseline=False, outside=bool(first["outside"] or first["both"]), needs=first["needs"]
    )


def index_of(statement: str) -> str | None:
    """Return the index that the statement builds concurrently, or None."""
    found = _INDEX.match(statement)
    return found[1] if found else None
