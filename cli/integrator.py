"""`quita integrator create|set|list`: partners, their code (stamped on the charges they bring), and their share."""

import argparse
import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cli.answer import (
    Commands,
    answer,
    checked_seal,
    connected,
    family,
    in_transaction,
    origin,
    reaching_postgres,
    tell,
)
from cli.run.child import CannotRun
from domain.merchants.partners import ALONE_BPS_MAX, needs_second
from domain.money import reais
from runtime.production import environment

_CELL_S_MAX = 5.0
_PERCENT = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?")


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "integrator", "partners and their share")

    parser = verbs.add_parser("create", help="a partner with its own code (INTG- and six characters)")
    name_options = parser.add_mutually_exclusive_group(required=True)
    name_options.add_argument("called", nargs="?", metavar="NAME")
    name_options.add_argument("--name")
    _add_terms(parser)
    parser.set_defaults(run=create, at_home=True)

    parser = verbs.add_parser("set", help="change a partner; a share holds for charges issued from now on")
    parser.add_argument("code")
    _add_terms(parser)
    state = parser.add_mutually_exclusive_group()
    state.add_argument("--active", dest="active", action="store_true", default=None)
    state.add_argument("--inactive", dest="active", action="store_false", help="refuse the code on new boletos")
    parser.set_defaults(run=change, at_home=True)

    parser = verbs.add_parser("list", help="every partner")
    parser.set_defaults(run=show)


def _add_terms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--share", type=_basis_points, metavar="PERCENT", help="of each payment, such as 2.5")
    parser.add_argument("--account-id", type=UUID, help="the partner's own account, which the share is credited to")


def create(args: argparse.Namespace) -> int:
    from commands.merchants.integrators import create_integrator
    from commands.people.audit import audit_for_platform

    _check_needs_no_second(args.share)
    now, name, facts = datetime.now(UTC), args.name or args.called, {"share": reais(args.share or 0), **_account(args)}

    async def run(conn: Any) -> Any:
        partner = await create_integrator(
            conn, name=name, account_id=args.account_id, now=now, share_bps=args.share or 0
        )
        await audit_for_platform(conn, name, "integrator.created", facts, origin(), now=now)
        return partner

    return answer(args, _partner_record(_in_all_cells(args.account_id, run)))


def change(args: argparse.Namespace) -> int:
    from commands.merchants.integrators import set_integrator
    from commands.people.audit import audit_for_platform

    _check_needs_no_second(args.share)
    now, facts = datetime.now(UTC), _account(args)
    if args.share is not None:
        facts["share"] = reais(args.share)
    if args.active is not None:
        facts["active"] = "sim" if args.active else "não"

    async def run(conn: Any) -> Any:
        partner = await set_integrator(
            conn, args.code, now=now, share_bps=args.share, active=args.active, account_id=args.account_id
        )
        await audit_for_platform(conn, args.code, "integrator.changed", facts, origin(), now=now)
        return partner

    return answer(args, _partner_record(_in_all_cells(args.account_id, run)))


def _account(args: argparse.Namespace) -> dict[str, str]:
    return {"account_id": str(args.account_id)} if args.account_id else {}


def _in_all_cells(account_id: UUID | None, command: Callable[[Any], Awaitable[Any]]) -> Any:
    """Runs the command in the home cell and returns its result; copies the partners to the other cells at once."""
    from commands.merchants.partner_copy import account_exists
    from domain.errors import Code, Refused
    from runtime.cells.directory import read_cells

    async def run() -> Any:
        async with connected() as home:
            seal = await checked_seal(home)
            if account_id is not None:
                with reaching_postgres():
                    if not await account_exists(home, account_id, seal=seal):
                        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
            async with home.transaction():
                result = await command(home)
            for cell in await read_cells(home, seal):
                await _copy_partners_to(home, cell)
        return result

    return asyncio.run(run())


async def _copy_partners_to(home: Any, cell: Any) -> None:
    from commands.merchants.partner_copy import copy_partners
    from runtime.postgres import DB_UNAVAILABLE, connect

    try:
        async with asyncio.timeout(_CELL_S_MAX):
            conn = await connect(cell.addresses.database_url)
            try:
                while await copy_partners(home, conn):
                    pass
            finally:
                await conn.close()
    except DB_UNAVAILABLE:
        tell(f"cell {cell.name} does not answer: its workers will bring this there")


def _check_needs_no_second(share_bps: int | None) -> None:
    """CannotRun in production for a share that two members of staff must approve."""
    if environment(os.environ) == "production" and share_bps and needs_second(share_bps, now_bps=0):
        raise CannotRun(
            f"a share above {reais(ALONE_BPS_MAX)} % takes two members of staff: propose it at /plataforma/parceiros"
        )


def show(args: argparse.Namespace) -> int:
    partners = in_transaction(_all_partners)
    if args.json:
        return answer(args, [_partner_record(each) for each in partners])
    for each in partners:
        state, account = "active" if each.active else "inactive", str(each.account_id or "-")
        print(f"{each.integrador_code}  {reais(each.share_bps):>6} %  {state:8}  {account:36}  {each.name}")
    return 0


async def _all_partners(conn: Any) -> list[Any]:
    from readmodels.reports.integrators import list_integrators

    partners: list[Any] = []
    while page := await list_integrators(conn, after=partners[-1].integrador_code if partners else ""):
        partners += page
    return partners


def _partner_record(integrator: Any) -> dict[str, Any]:
    return {
        "integrador_code": integrator.integrador_code,
        "name": integrator.name,
        "account_id": integrator.account_id,
        "active": integrator.active,
        "share": reais(integrator.share_bps),
    }


def _basis_points(text: str) -> int:
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError("a percentage with at most two decimals, such as 2.5")
    whole, decimals = match.groups(default="")
    return int(whole) * 100 + int(decimals.ljust(2, "0"))
