"""`listen URL`: sends the account's new events to an address on this machine, as its webhooks would be sent.

It reads the feed and signs the events that it forwards, so the service need not reach this machine. While the receiver
is not reached, `listen` waits and keeps the order, so a restart of the receiver loses nothing.
"""

import argparse
import json
import os
import time
import uuid
from base64 import b64encode
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .api import Api, Away, address
from .deliveries import DeliveryAnswer, headers_of, post
from .keys import given_webhook_secret
from .output import show

_POLL_S = 0.5
_WAIT_S_MAX = 5.0
_PATIENCE_S = 600.0
_PAGE = 100
_ONLY_IN_FEED = ("type", "sequence", "created_at")  # a feed item is the webhook's body plus these fields
DEFAULT_KINDS = ("payment.received", "charge.cancelled")


def listen(args: argparse.Namespace, api: Api) -> int:
    address(args.url)
    secret = given_webhook_secret() or "whsec_" + b64encode(os.urandom(32)).decode()
    newest = api.get("/v1/events", limit=1)["data"]
    after = (newest[0]["sequence"] if newest else 0) if args.after_sequence is None else args.after_sequence
    kinds = args.type or list(DEFAULT_KINDS)
    show(
        args,
        {"secret": secret, "url": args.url, "after_sequence": after, "types": kinds},
        f"{', '.join(kinds)} after number {after} go to {args.url} (for other kinds: --type KIND, once for each)\n"
        f"secret: {secret}",
    )
    failed = 0
    for item in islice(_follow(api, kinds, after), args.once):
        failed += not _forward(args, secret, item)
    return 1 if failed else 0


def _follow(api: Api, kinds: list[str], after: int) -> Iterator[dict[str, Any]]:
    """Yields every event after `after` as it appears, without end."""
    wait_s = _POLL_S
    while True:
        try:
            items = api.get("/v1/events", type=kinds, after_sequence=after, limit=_PAGE)["data"]
        except Away:
            wait_s = min(wait_s * 2, _WAIT_S_MAX)
            time.sleep(wait_s)
            continue
        wait_s = _POLL_S
        for item in items:
            yield item
            after = item["sequence"]
        if len(items) < _PAGE:
            time.sleep(_POLL_S)


def _forward(args: argparse.Namespace, secret: str, item: dict[str, Any]) -> bool:
    """Forwards one event; returns whether the receiver accepted it. Waits while not reached, except with --once."""
    body = json.dumps(
        {name: value for name, value in item.items() if name not in _ONLY_IN_FEED},
        ensure_ascii=False, separators=(",", ":"),
    ).encode()  # fmt: skip
    delivery_id, began, wait_s, attempt = str(uuid.uuid4()), time.monotonic(), _POLL_S, 1
    while True:
        headers = headers_of(
            kind=item["type"], event_id=item["event_id"], delivery_id=delivery_id, attempt=attempt,
            timestamp=int(time.time()), body=body, secret=secret,
        )  # fmt: skip
        said = post(args.url, body, headers)
        waits = said.absent and args.once is None and time.monotonic() - began < _PATIENCE_S
        if attempt == 1 or not waits:
            _tell(args, item, said, attempt, waits=waits)
        if not waits:
            return said.taken
        time.sleep(wait_s)
        wait_s = min(wait_s * 2, _WAIT_S_MAX)
        attempt += 1


def _tell(args: argparse.Namespace, item: dict[str, Any], said: DeliveryAnswer, attempt: int, *, waits: bool) -> None:
    event = {name: item[name] for name in ("sequence", "type", "event_id")}
    answer = {"attempt": attempt, "status": said.status, "error": said.error or None, "answer": said.answer}
    outcome = f"{said.status or said.error}  {said.took_s * 1000:.0f} ms" + ("; waiting for it" if waits else "")
    line = f"{item['sequence']:>6}  {item['type']:<24}  {item['event_id']}  {outcome}"
    show(args, event | answer | {"again": waits}, line)
    if said.status and not said.taken and said.answer and not args.json:
        print(f"        {' '.join(said.answer.split())[:200]}", flush=True)
