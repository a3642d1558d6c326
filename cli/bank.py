"""`quita bank`: pay at the simulated bank, or make it fail."""

import argparse
import urllib.error
import urllib.request
from typing import Any
from uuid import UUID

import msgspec

from cli import running
from cli.answer import Commands, answer, family, in_transaction
from cli.run.child import CannotRun
from domain.charge import DUAL

_ANSWER_S_MAX = 30.0
_straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the bank is on this machine
FAULTS = ("up", "down", "slow", "lost_reply", "refuse", "timeout_before", "cut", "error500", "html")


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "bank", "the simulated bank: pay charges, make it fail")

    one = verbs.add_parser("pay", help="pay a charge of production mode")
    one.add_argument("--charge-id", type=UUID, required=True)
    one.add_argument("--amount", help="reais with two decimals; what the charge costs today unless given")
    one.add_argument("--times", type=int, help="pay so many times")
    one.add_argument(
        "--rail",
        choices=("boleto", "pix"),
        help="of a boleto: by its line (boleto, unless given) or its QR; of a dual charge: by which leg",
    )
    one.set_defaults(run=pay)

    one = verbs.add_parser("fault", help="choose how the bank behaves from now on")
    one.add_argument("fault", choices=FAULTS)
    one.add_argument("--ms", type=int, help="of slow: how long each answer takes, in milliseconds (5000)")
    one.set_defaults(run=fault)


def pay(args: argparse.Namespace) -> int:
    from commands.bank_orders.boleto_orders import find_number

    # `boleto` is None for a PIX charge. `force`, because a payer may pay late, twice, or a cancelled charge.
    boleto = in_transaction(lambda conn: find_number(conn, charge_id=args.charge_id))
    options = ["amount", "times"]
    if boleto is None or (boleto.payment_method == DUAL and args.rail == "pix"):
        body: dict[str, Any] = {"charge_id": str(args.charge_id)}
    else:
        body = {"number": boleto.number}
        options.append("rail")
    body["force"] = True
    body |= {name: value for name in options if (value := getattr(args, name)) is not None}
    return answer(args, _post("/simulated/pay", body))


def fault(args: argparse.Namespace) -> int:
    body = {"fault": args.fault} | ({} if args.ms is None else {"ms": args.ms})
    return answer(args, _post("/simulated/fault", body))


def _post(path: str, body: dict[str, Any]) -> Any:
    bank_url = running.find().need("bank_url")
    request = urllib.request.Request(  # noqa: S310
        bank_url.rstrip("/") + path, msgspec.json.encode(body), {"Content-Type": "application/json"}
    )
    try:
        with _straight.open(request, timeout=_ANSWER_S_MAX) as reply:
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
