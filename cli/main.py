"""The command line `quita`. Exit codes: 0 done, 1 refused or failed, 2 used wrongly.

Every command answers people in plain lines and programs in JSON (--json); an error is one line on stderr.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from cli.cells import choose
from cli.run.child import CannotRun
from runtime import VERSION

_MODULES: Final = {
    "up": "run.up", "serve": "run.serve", "status": "status", "doctor": "status", "migrate": "status",
    "merchant": "merchant", "payer": "payer", "staff": "staff", "webhook": "webhook", "integrator": "integrator",
    "pix": "pix", "bank": "bank", "listen": "listen", "readmodels": "readmodels", "report": "report",
    "rekey": "run.rekey", "backup": "backups.backup", "recover": "backups.recover", "cell": "cells.cell",
    "account": "backups.account",
}  # fmt: skip
"""The module of each command, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="quita", description="Payments by PIX and boleto: run the service, and operate it."
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in _modules_for(arguments):
        importlib.import_module(f"cli.{module}").add_commands(commands)
    parser.add_argument("--version", action="version", version=f"quita {VERSION}")
    parser.add_argument(
        "--cell",
        metavar="NAME",
        help="the cell to work in; by default the cell of an id among the arguments, else home",
    )
    _add_common_options(parser)
    args = parser.parse_args(arguments)
    if sys.stdout is None:  # the parent process closed it (>&-): output goes nowhere, as with print()
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process runs
    try:
        choose.enter(args)
        code: int = args.run(args)
        return code
    except CannotRun as error:
        return _print_failure(str(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        if _is_expected(error):
            return _print_failure(_error_line(error))
        raise


def _modules_for(arguments: Sequence[str]) -> Iterable[str]:
    """The module of the named command; all modules where none is named. Importing them all takes half of the time that
    a command needs to start."""
    words = iter(arguments)
    for word in words:
        if word == "--cell":
            next(words, None)
        elif word in _MODULES:
            return (_MODULES[word],)
        elif not word.startswith("-"):
            break
    return dict.fromkeys(_MODULES.values())


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    """Adds --json and --cell to every command, so that they may also follow its other arguments."""
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        parser.add_argument("--json", action="store_true", help="answer in JSON, for programs")
        cell_help = "the cell to work in, or `all`; by default the cell of an id among the arguments, else home"
        parser.add_argument("--cell", metavar="NAME", default=argparse.SUPPRESS, help=cell_help)
    for action in nested:
        for child in dict.fromkeys(action.choices.values()):
            _add_common_options(child)


def _is_expected(error: Exception) -> bool:
    """Whether the error is shown as one line instead of a traceback: refusals, servers that do not answer, and errors
    of the database."""
    import asyncpg
    from cryptography.exceptions import InvalidTag

    from domain.errors import Refused
    from runtime.backups.tools import BackupFailed
    from sql.migrate import MigrationBlocked, OutdatedDatabase
    from sql.roles import CannotGrant

    return isinstance(
        error,
        OutdatedDatabase
        | MigrationBlocked
        | CannotGrant
        | BackupFailed
        | InvalidTag
        | Refused
        | OSError
        | TimeoutError
        | asyncpg.PostgresError
        | asyncpg.InterfaceError,
    )


def _error_line(error: Exception) -> str:
    import asyncpg
    from cryptography.exceptions import InvalidTag

    from domain.errors import Code, Refused

    if isinstance(error, Refused):
        facts = "".join(f" {name}: {text}" for name, text in (error.fields or {}).items())
        # Its message is about the body of a request.
        message = "" if facts and error.code is Code.VALIDATION_ERROR else f" {error.message}"
        return f"{error.code.name}:{message}{facts}"
    if isinstance(error, InvalidTag):
        return "SECRET_KEY does not have the key that this was sealed with"
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return f"{error}; this needs the owner of the tables (DATABASE_OWNER_URL)"
    return " ".join(str(error).split()) or type(error).__name__


def _print_failure(line: str) -> int:
    print(f"quita: {line}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
