"""The command line `quita-cli`. Exit codes: 0 done, 1 refused or failed, 2 used wrongly.

Every command answers people in plain lines and programs in JSON (--json); an error is one line on stderr.
"""

import argparse
import sys
from typing import Any, Final

from . import VERSION, commands, completion, keys, webhooks
from .api import Api
from .certify import certify
from .keys import CannotRun
from .listen import DEFAULT_KINDS, listen
from .trigger import KINDS, trigger

_ABOUT = """Keys come from QUITA_URL, QUITA_CLIENT_ID and QUITA_CLIENT_SECRET, or from `quita-cli login`, which
stores them for you alone. A secret is never an argument."""
# The examples in the help of each command.
_EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "login": ("login https://api.example.com", "login --profile production"),
    "charges create": ("charges create 10.50 --external-id order-1001", "charges create 10.50 --json"),
    "charges list": ("charges list --status pending --status expired", "charges list --external-id order-1001"),
    "events list": ("events list --type payment.received", "events list --after-sequence 120 --json"),
    "events resend": ("events resend 120", "events resend 120-140"),
    "webhook list": ("webhook list --state held", "webhook list --limit 5 --json"),
    "webhook test": ("webhook test",),
    "listen": ("listen http://127.0.0.1:9999/", "listen http://127.0.0.1:9999/ --type payment.received --once 1"),
    "trigger": ("trigger payment.received", "trigger payment.anomaly --json"),
    "logs tail": ("logs tail --status 4xx", "logs tail --path /v1/charges --new"),
    "clock advance": ("clock advance P3D", "clock advance 2027-01-31T12:00:00Z"),
    "certify": ("certify https://shop.example.com/webhooks",),
    "open": ("open docs", "open dashboard", "open 01a1fdb9-6fd9-7433-94a2-937b5542916e"),
    "completion": ('eval "$(quita-cli completion bash)"', "quita-cli completion zsh > ~/.quita-completion"),
}


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    try:
        if args.needs_api:
            with Api(keys.find(args.profile)) as api:
                return int(args.run(args, api))
        return int(args.run(args))
    except CannotRun as error:
        print(f"quita-cli: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="quita-cli", description="Quita's API from a terminal.", epilog=_ABOUT)
    parser.add_argument("--version", action="version", version=f"quita-cli {VERSION}")
    words = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    one = _command(words, "login", commands.login, "store a credential for this user", needs_api=False)
    one.add_argument("url", nargs="?", help="address of the API, such as https://api.example.com")
    _command(words, "me", commands.me, "what the credential stands for")
    _charges(_family(words, "charges", "create, look up, pay and cancel charges"))
    _events(_family(words, "events", "read the feed, send events again"))

    hooks = _family(words, "webhook", "what was sent to the registered endpoint, and a test of it")
    one = _command(hooks, "list", webhooks.list_deliveries, "list deliveries, newest event first")
    one.add_argument("--state", action="append", help="pending, sending, delivered, held, exhausted or stuck")
    one.add_argument("--limit", type=int, default=25)
    _command(hooks, "test", webhooks.try_out, "have a test event delivered; exit 1 unless the endpoint takes it")

    one = _command(words, "listen", listen, "forward new events to a local address, until Ctrl-C")
    one.add_argument("url", help="where to POST them, for instance http://127.0.0.1:3000/webhooks")
    one.add_argument("--type", action="append", help=f"these kinds; {' and '.join(DEFAULT_KINDS)} unless given")
    one.add_argument("--after-sequence", type=int, metavar="N", help="begin behind event N of the feed")
    one.add_argument("--once", type=int, metavar="N", help="end after N events; exit 1 unless each was taken")

    one = _command(words, "trigger", trigger, "have the sandbox make an event happen")
    one.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))

    tail = _command(
        _family(words, "logs", "what your programs asked"), "tail", commands.tail_logs, "show requests as they come"
    )
    tail.add_argument("--status", choices=("2xx", "4xx", "5xx"))
    tail.add_argument("--path", help="only paths that begin so")
    tail.add_argument("--new", action="store_true", help="only what comes from now on")
    tail.add_argument("--once", type=int, metavar="N", help="end after N lines")

    clock = _family(words, "clock", "the sandbox's clock")
    _command(clock, "show", commands.show_clock, "what it shows")
    one = _command(clock, "advance", commands.advance_clock, "let time pass: P3D, PT36H, or an instant")
    one.add_argument("by")

    one = _command(words, "open", commands.open_page, "open a page in the browser, and print its address")
    one.add_argument("page", help="docs, dashboard, or a charge_id for the payer's page")

    one = _command(
        words,
        "certify",
        certify,
        "play twelve deliveries at a receiver; exit 1 when it has to mend something",
        needs_api=False,
    )
    one.add_argument("url", help="your receiver; its secret is QUITA_WEBHOOK_SECRET, or is asked for")

    def complete(args: argparse.Namespace) -> int:
        print(completion.script(args.shell, parser), end="")
        return 0

    one = _command(words, "completion", complete, "print what makes the shell complete these words", needs_api=False)
    one.add_argument("shell", choices=("bash", "zsh"))
    return parser


def _charges(words: Any) -> None:
    one = _command(words, "create", commands.create_charge, "create a PIX charge")
    one.add_argument("amount", help="decimal reais, such as 10.50")
    one.add_argument("--external-id")
    one.add_argument("--description")
    one.add_argument("--expires-in", type=int, metavar="SECONDS")
    one.add_argument("--metadata", action="append", type=_pair, metavar="KEY=VALUE", help="may be repeated")
    one = _command(words, "get", commands.get_charge, "look a charge up")
    one.add_argument("charge_id")
    one = _command(words, "list", commands.list_charges, "list charges, newest first")
    one.add_argument("--status", action="append")
    one.add_argument("--external-id")
    one.add_argument("--limit", type=int, default=25)
    for change, help_text in (("pay", "pay a test charge"), ("cancel", "cancel a pending charge")):
        one = _command(words, change, commands.change_charge, help_text)
        one.add_argument("charge_id")
        one.set_defaults(change=change)


def _events(words: Any) -> None:
    one = _command(words, "list", commands.list_events, "list events, newest first")
    one.add_argument("--type", action="append")
    one.add_argument("--charge-id")
    one.add_argument("--after-sequence", type=int, metavar="N", help="oldest first, behind event N")
    one.add_argument("--limit", type=int, default=25)
    one = _command(words, "resend", commands.resend_event, "send webhooks again")
    one.add_argument("event", help="an event_id, a number of the feed, or a range such as 10-20")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def _family(words: Any, name: str, help_text: str) -> Any:
    return words.add_parser(name, help=help_text, description=help_text).add_subparsers(metavar="WORD", required=True)


def _command(words: Any, name: str, run: Any, help_text: str, *, needs_api: bool = True) -> Any:
    parser = words.add_parser(
        name, help=help_text, description=help_text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    # `prog` is "quita-cli charges create": the key is the part after the program's name.
    if examples := _EXAMPLES.get(parser.prog.partition(" ")[2]):
        whole = [each if "quita-cli" in each else f"quita-cli {each}" for each in examples]
        parser.epilog = "examples:\n" + "\n".join(f"  {each}" for each in whole)
    parser.add_argument("--json", action="store_true", help="answer in JSON, for programs")
    parser.add_argument("--profile", default="default", help="which of the stored credentials")
    parser.set_defaults(run=run, needs_api=needs_api)
    return parser


if __name__ == "__main__":
    sys.exit(main())
