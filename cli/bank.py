"""`quita bank`: pay at the simulated bank, or make it fail."""

import argparse
import urllib.error
import urllib.request
from typing import Any
from uuid import UUID

import msgspec

from banks.simulated import FAULTS
from cli import running
from cli.answer import Commands, answer, family, in_transaction
from cli.run.child import CannotRun
from domain.charge import DUAL

_ANSWER_S_MAX = 30.0
_direct_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the bank is on this machine


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "bank", "the simulated bank: pay charges, make it fail")

    parser = verbs.add_parser("pay", help="pay a charge of production mode")
    parser.add_argument("--charge-id", type=UUID, required=True)
    parser.add_argument("--amount", help="reais with two decimals; what the charge costs today unless given")
    parser.add_argument("--times", type=int, help="pay so many times")
    parser.add_argument(
        "--rail",
        choices=("boleto", "pix"),
        help="of a boleto: by its line (boleto, unless given) or its QR; of a dual charge: by which leg",
    )
    parser.set_defaults(run=pay)

    parser = verbs.add_parser("fault", help="choose how the bank behaves from now on")
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--ms", type=int, help="of slow: how long each answer takes, in milliseconds (5000)")
    parser.set_defaults(run=fault)


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
        with _direct_opener.open(request, timeout=_ANSWER_S_MAX) as reply:
            return msgspec.json.decode(reply.read())
    except urllib.error.HTTPError as error:
        text = error.read(2000).decode(errors="replace")
        raise CannotRun(f"the bank answered {error.code}: {_message_of(text)}") from None
    except (OSError, ValueError) as error:
        raise CannotRun(f"the bank at {bank_url} does not answer: {getattr(error, 'reason', error)}") from None


def _message_of(text: str) -> str:
    try:
        record = msgspec.json.decode(text.encode())
    except msgspec.MsgspecError:
        return " ".join(text.split())
    for name in ("message", "detail", "error"):
        if isinstance(record, dict) and name in record:
            value = record[name]
            return str(value.get("message", value)) if isinstance(value, dict) else str(value)
    return " ".join(text.split())
