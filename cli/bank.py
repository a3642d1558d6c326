"""`quita bank`: be a payer at the simulated bank, or let it fail on purpose."""

import argparse
import asyncio
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from cli import running
from cli.answer import answer
from cli.supervise import CannotRun
from domain.charge import DUAL

if TYPE_CHECKING:
    from commands.bank_orders.boleto_orders import Number

_ANSWER_S_MAX = 30.0
FAULTS = ("up", "down", "slow", "lost_reply", "refuse", "timeout_before", "cut", "error500", "html")


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    bank = commands.add_parser("bank", help="the simulated bank: pay charges, make it fail")
    verbs = bank.add_subparsers(title="commands", metavar="COMMAND", required=True)

    one = verbs.add_parser("pay", help="pay a charge of production mode")
    one.add_argument("--charge-id", type=UUID, required=True)
    one.add_argument("--amount", help="reais with two decimals; the charge's own amount unless given")
    one.add_argument("--times", type=int, help="pay so many times")
    one.add_argument(
        "--rail",
        choices=("boleto", "pix"),
        help="of a boleto: by its line (boleto, unless given) or its QR; of a dual charge: by which leg",
    )
    one.set_defaults(run=pay)

    one = verbs.add_parser("fault", help="choose how the bank behaves from now on")
    one.add_argument("fault", choices=FAULTS)
    one.set_defaults(run=fault)


def pay(args: argparse.Namespace) -> int:
    # A payer who has the code in hand may pay late, twice, or what was cancelled just now: that is what anomalies are.
    boleto = asyncio.run(_boleto(args.charge_id))
    told = ["amount", "times"]
    if boleto is None or (boleto.payment_method == DUAL and args.rail == "pix"):
        body: dict[str, Any] = {"charge_id": str(args.charge_id)}
    else:
        # The bank knows a boleto by its number alone.
        body = {"number": boleto.number}
        told.append("rail")
    body["force"] = True
    body |= {name: value for name in told if (value := getattr(args, name)) is not None}
    return answer(args, _post("/simulated/pay", body))


def fault(args: argparse.Namespace) -> int:
    return answer(args, _post("/simulated/fault", {"fault": args.fault}))


async def _boleto(charge_id: UUID) -> "Number | None":
    """The boleto of a charge of production mode; None for a PIX charge, and for one nobody knows."""
    import asyncpg

    from commands.bank_orders.boleto_orders import find_number
    from runtime.postgres import connect

    try:
        conn = await connect(running.find().need("database_url"))
    except (OSError, asyncpg.PostgresError) as error:
        raise CannotRun(f"PostgreSQL cannot be reached: {type(error).__name__}") from None
    try:
        return await find_number(conn, charge_id=charge_id)
    finally:
        await conn.close()


def _post(path: str, body: dict[str, Any]) -> Any:
    bank_url = running.find().need("bank_url")
    request = urllib.request.Request(  # noqa: S310
        bank_url.rstrip("/") + path, msgspec.json.encode(body), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S_MAX) as reply:  # noqa: S310
            return msgspec.json.decode(reply.read())
    except urllib.error.HTTPError as error:
        said = error.read(2000).decode(errors="replace")
        raise CannotRun(f"the bank answered {error.code}: {_message(said)}") from None
    except (OSError, ValueError) as error:
        raise CannotRun(f"the bank at {bank_url} does not answer: {getattr(error, 'reason', error)}") from None


def _message(said: str) -> str:
    try:
        record = msgspec.json.decode(said.encode())
    except msgspec.MsgspecError:
        return " ".join(said.split())
    for name in ("message", "detail", "error"):
        if isinstance(record, dict) and name in record:
            found = record[name]
            return str(found.get("message", found)) if isinstance(found, dict) else str(found)
    return " ".join(said.split())
