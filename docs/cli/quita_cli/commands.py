"""The commands that need only a few calls: login, me, charges, open, events, logs, clock."""

import argparse
import json
import time
import webbrowser
from contextlib import suppress
from typing import Any

from . import keys
from .api import Api, Away
from .output import show, show_rows

_POLL_S = 1.0
_PAGES_MAX = 10
_SEEN_MAX = 5_000
_OWN_PATH = "/v1/requests"


def login(args: argparse.Namespace) -> int:
    given = keys.ask(args.url)
    with Api(given) as api:
        who = api.get("/v1/me")
    path = keys.store(args.profile, given)
    told = {"profile": args.profile, "file": str(path), **{name: who[name] for name in ("account_id", "name", "mode")}}
    show(args, told, f"{who['name']}, {who['mode']}: account {who['account_id']}\nstored in {path} as {args.profile!r}")
    return 0


def me(args: argparse.Namespace, api: Api) -> int:
    who = api.get("/v1/me")
    show(args, who, f"{who['name']}, {who['mode']}: account {who['account_id']}\n{' '.join(who['scopes'])}")
    return 0


def list_charges(args: argparse.Namespace, api: Api) -> int:
    found = api.get("/v1/charges", limit=args.limit, status=args.status, external_id=args.external_id)["data"]
    show_rows(args, found, _charge_line)
    return 0


def get_charge(args: argparse.Namespace, api: Api) -> int:
    _show_charge(args, api.get(f"/v1/charges/{args.charge_id}"))
    return 0


def create_charge(args: argparse.Namespace, api: Api) -> int:
    body: dict[str, Any] = {"account_id": api.get("/v1/me")["account_id"], "amount": args.amount}
    for name in ("external_id", "description", "expires_in"):
        if getattr(args, name) is not None:
            body[name] = getattr(args, name)
    if args.metadata:
        body["metadata"] = dict(args.metadata)
    _show_charge(args, api.post("/v1/charges/pix", body, key=True))
    return 0


def change_charge(args: argparse.Namespace, api: Api) -> int:
    """Pays a charge (in the sandbox) or cancels it."""
    last = "simulate-payment" if args.change == "pay" else "cancel"
    _show_charge(args, api.post(f"/v1/charges/{args.charge_id}/{last}"))
    return 0


def open_page(args: argparse.Namespace, api: Api) -> int:
    """Opens a page in the browser, if there is one; prints its address in any case."""
    if args.page == "docs":
        address = api.get("/v1/openapi.json")["externalDocs"]["url"]
    elif args.page == "dashboard":
        address = f"{api.url}/painel"
    else:
        address = api.get(f"/v1/charges/{args.page}")["payment_url"]
    show(args, {"url": address}, address)
    with suppress(webbrowser.Error):
        webbrowser.open(address)
    return 0


def list_events(args: argparse.Namespace, api: Api) -> int:
    query = {"after_sequence": args.after_sequence} if args.after_sequence is not None else {}
    found = api.get("/v1/events", limit=args.limit, type=args.type, charge_id=args.charge_id, **query)["data"]
    show_rows(args, found, lambda item: f"{item['sequence']:>6}  {item['type']:<24}  {item['created_at']}  "
              f"{item.get('charge_id') or item.get('withdrawal_id')}  {item['event_id']}")  # fmt: skip
    return 0


def resend_event(args: argparse.Namespace, api: Api) -> int:
    """Sends events again, by event_id or by a range of sequences of the feed."""
    first, dash, last = args.event.partition("-")
    if first.isdigit() and (last.isdigit() or not dash):
        asked = {"from_sequence": int(first), "to_sequence": int(last or first)}
        count = api.post("/v1/events/redeliver", asked)["deliveries"]
        why = "" if count else ": no endpoint takes these events, or they were on their way already"
        show(args, {"deliveries": count}, f"{count} on their way{why}")
        return 0
    found = api.get("/v1/webhook-deliveries", event_id=args.event)["data"]
    for each in found:
        api.post(f"/v1/webhook-deliveries/{each['delivery_id']}/redeliver")
    why = "" if found else ": no endpoint was sent an event with this id"
    show(args, {"deliveries": len(found)}, f"{len(found)} on their way{why}")
    return 0 if found else 1


def tail_logs(args: argparse.Namespace, api: Api) -> int:
    """Shows requests as they appear, oldest first. One may appear after a later one, since each process of the API
    writes its own requests."""
    seen = {row["request_id"]: None for row in _requests(api, args, set())} if args.new else {}
    left = args.once
    while left is None or left > 0:
        try:
            rows = _requests(api, args, seen.keys())
        except Away:
            rows = []
        for row in reversed(rows):
            if left == 0:
                break
            seen[row["request_id"]] = None
            left = None if left is None else left - 1
            code = f"  {row['code']}" if row["code"] else ""
            show(args, row, f"{row['at']}  {row['status']}  {row['method']:<5} {row['path']}  "
                 f"{row['duration_ms']:.1f} ms  {row['request_id']}{code}")  # fmt: skip
        for old in list(seen)[:-_SEEN_MAX]:
            del seen[old]
        if left is None or left > 0:
            time.sleep(_POLL_S)
    return 0


def _requests(api: Api, args: argparse.Namespace, seen: Any) -> list[dict[str, Any]]:
    """The requests that were not shown yet, newest first, without those of this command itself."""
    found: list[dict[str, Any]] = []
    cursor = None
    for _ in range(_PAGES_MAX):
        page = api.get(_OWN_PATH, limit=100, status=args.status, path=args.path, cursor=cursor)
        new = [row for row in page["data"] if row["request_id"] not in seen]
        found += [row for row in new if not row["path"].startswith(_OWN_PATH)]
        cursor = page["next_cursor"]
        if cursor is None or len(new) < len(page["data"]) or not seen:
            break
    return found


def show_clock(args: argparse.Namespace, api: Api) -> int:
    _tell_clock(args, api.get("/v1/sandbox/clock"))
    return 0


def advance_clock(args: argparse.Namespace, api: Api) -> int:
    _tell_clock(
        args, api.post("/v1/sandbox/clock", {"to" if "T" in args.by and "-" in args.by else "advance": args.by})
    )
    return 0


def _tell_clock(args: argparse.Namespace, clock: dict[str, Any]) -> None:
    show(args, clock, f"{clock['now']}, {clock['advanced_seconds']} s ahead of real time")


def _show_charge(args: argparse.Namespace, charge: dict[str, Any]) -> None:
    if args.json:
        print(json.dumps(charge, ensure_ascii=False), flush=True)
        return
    print(_charge_line(charge))
    print(charge["payment_url"])
    if charge["pix"] is not None:
        print(charge["pix"]["qr_code"])
    if charge["boleto"] is not None:
        print(charge["boleto"]["linha_digitavel"])


def _charge_line(charge: dict[str, Any]) -> str:
    return (
        f"{charge['charge_id']}  {charge['status']:<9}  {charge['amount']:>12}  {charge['payment_method']:<14}  "
        f"{charge['external_id'] or ''}"
    ).rstrip()
