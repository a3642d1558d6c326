"""`quita status` and `quita migrate`."""

import argparse
import asyncio

from cli import running
from cli.answer import Commands, answer, reaching_postgres
from cli.run.serve import answers


def add_commands(commands: Commands) -> None:
    commands.add_parser("status", help="what runs, where; exit 1 when the API does not answer").set_defaults(run=status)
    commands.add_parser("migrate", help="bring the database to the newest shape").set_defaults(run=migrate)


def status(args: argparse.Namespace) -> int:
    found = running.find()
    ready = answers(found.port) if found.pids else False
    answer(
        args,
        {
            "ready": ready,
            "home": str(running.home()),
            "base_url": found.base_url,
            "app_url": found.app_url,
            "docs_url": found.docs_url,
            "bank_url": found.bank_url,
            "pids": found.pids,
        },
    )
    return 0 if ready else 1


def migrate(args: argparse.Namespace) -> int:
    from sql.migrate import migrate as apply

    with reaching_postgres():
        applied = asyncio.run(apply(running.find().need("database_url")))
    return answer(args, {"applied": applied})
