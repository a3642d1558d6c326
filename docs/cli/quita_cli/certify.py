"""`certify URL`: sends twelve deliveries, valid and invalid, to a merchant's receiver, and tells what to fix.

All deliveries are from the sandbox (`test` is true) and about charges that do not exist. A receiver should read the
charge through the API before it acts on a delivery: it then finds none and does nothing.
"""

import argparse
import json
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import urandom
from typing import Any, Final, NamedTuple

from .api import address
from .deliveries import DeliveryAnswer, headers_of, post, signature
from .keys import webhook_secret
from .output import show

_CLOCK_S_MAX: Final = 300
_SLOW_S: Final = 5.0
"""Half of the service's time limit: a receiver that takes this long when idle is too slow under load."""
_AT_ONCE: Final = 8
_LARGE_BYTES: Final = 48 * 1024
_TAKEN: Final = "any 2xx"
_DECLINED: Final = "401 or 403"


class Receiver:
    """The receiver under test: its address and the signing secret that it has."""

    def __init__(self, url: str, secret: str) -> None:
        self.url = url
        self.secret = secret

    def deliver(
        self,
        event: dict[str, Any],
        *,
        secret: str | None = None,
        clock_s: int = 0,
        attempt: int = 1,
        change: Callable[[dict[str, str], bytes], tuple[dict[str, str], bytes]] | None = None,
        pieces: int = 1,
    ) -> DeliveryAnswer:
        """Signs and sends one delivery; `change` alters it after signing."""
        body = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
        headers = headers_of(
            kind=event["event"], event_id=event["event_id"], delivery_id=str(uuid.uuid4()), attempt=attempt,
            timestamp=int(time.time()) + clock_s, body=body, secret=secret or self.secret,
        )  # fmt: skip
        if change is not None:
            headers, body = change(headers, body)
        return post(self.url, body, headers, pieces=pieces, pause_s=0.2)


class Check(NamedTuple):
    name: str
    play: Callable[[Receiver], Sequence[DeliveryAnswer]]
    wanted: str
    repair: str


def event(kind: str = "payment.received", **more: Any) -> dict[str, Any]:
    return {
        "event": kind, "event_id": str(uuid.uuid4()), "charge_id": str(uuid.uuid4()), "account_id": str(uuid.uuid4()),
        "status": "paid", "amount": "10.00", "external_id": "pedido de certificação", "test": True,
        "paid_at": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()), **more,
    }  # fmt: skip


def _twice(receiver: Receiver) -> list[DeliveryAnswer]:
    same = event()
    return [receiver.deliver(same), receiver.deliver(same, attempt=2)]


def _at_once(receiver: Receiver) -> list[DeliveryAnswer]:
    same = event()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(lambda _: receiver.deliver(same), range(_AT_ONCE)))


def _out_of_order(receiver: Receiver) -> list[DeliveryAnswer]:
    """A charge's cancellation arrives before an earlier change of its due date."""
    later = event("charge.cancelled", status="cancelled", version=3)
    earlier = event("charge.due_date_changed", charge_id=later["charge_id"], status="pending", version=2)
    return [receiver.deliver(later), receiver.deliver(earlier)]


def _rotated(receiver: Receiver) -> list[DeliveryAnswer]:
    """A delivery during a rotation: signed with a new secret, and in X-Service-Signature-Previous with the old one."""

    def old_signs_too(headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        mine = signature(receiver.secret, int(headers["X-Service-Timestamp"]), body)
        return headers | {"X-Service-Signature-Previous": mine}, body

    return [receiver.deliver(event(), secret=_new_secret(), change=old_signs_too)]


def _without_signature(headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    kept = ("Content-Type", "User-Agent", "X-Service-Event", "X-Service-Timestamp", "X-Service-Delivery-Id")
    return {name: headers[name] for name in kept}, body


def _another_amount(headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    return headers, body.replace(b'"10.00"', b'"90.00"')


def _large(receiver: Receiver) -> list[DeliveryAnswer]:
    return [receiver.deliver(event(note="ã" * (_LARGE_BYTES // 2)), pieces=4)]


def _new_secret() -> str:
    return "whsec_" + b64encode(urandom(32)).decode()


_RAW: Final = "Verify HMAC-SHA256 over <X-Service-Timestamp>.<raw body> before anything is parsed"
CHECKS: Final = (
    Check("genuine", lambda at: [at.deliver(event())], _TAKEN,
          f"{_RAW}; the key is the secret's whole text, whsec_ included."),
    Check("sent twice", _twice, _TAKEN, "Answer 2xx to an event_id you have: it is sent again until you do."),
    Check("sent eight times at once", _at_once, _TAKEN,
          "Store event_id under a unique key, and answer 2xx when it is there already."),
    Check("signed by somebody else", lambda at: [at.deliver(event(), secret=_new_secret())], _DECLINED,
          f"{_RAW}, and answer 401 when it differs: anybody can POST to this address."),
    Check("not signed", lambda at: [at.deliver(event(), change=_without_signature)], _DECLINED,
          "Answer 401 when X-Service-Signature is missing."),
    Check("changed on its way", lambda at: [at.deliver(event(), change=_another_amount)], _DECLINED,
          "Sign the bytes you received, not the header's own or a body you wrote anew."),
    Check("ten minutes old", lambda at: [at.deliver(event(), clock_s=-2 * _CLOCK_S_MAX)], _DECLINED,
          "Refuse an X-Service-Timestamp more than 300 seconds from your clock: a recorded delivery is played again."),
    Check("ten minutes ahead", lambda at: [at.deliver(event(), clock_s=2 * _CLOCK_S_MAX)], _DECLINED,
          "Refuse timestamps of the future as well as those of the past."),
    Check("secret rotated", _rotated, _TAKEN,
          "Compare X-Service-Signature-Previous too: for 24 hours after a rotation your old secret signs there."),
    Check("a kind you do not know", lambda at: [at.deliver(event("charge.invented", surprise={"a": [1]}))], _TAKEN,
          "Answer 2xx to kinds and fields you do not know: they may be added at any time."),
    Check("out of order", _out_of_order, _TAKEN,
          "Take events in any order; read the charge again instead of trusting the latest arrival."),
    Check("48 KiB, slowly", _large, _TAKEN, "Take bodies of up to 64 KiB, read whole, as UTF-8."),
)  # fmt: skip


def certify(args: argparse.Namespace) -> int:
    """Runs all checks; returns 0 when the receiver passes, 1 when it has something to fix."""
    address(args.url)
    receiver = Receiver(args.url, webhook_secret())
    failed = 0
    for number, check in enumerate(CHECKS, 1):
        faults = _faults(check, check.play(receiver))
        failed += bool(faults)
        record = {
            "check": check.name,
            "passed": not faults,
            "faults": faults,
            "repair": check.repair if faults else None,
        }
        mark = "ok  " if not faults else "MEND"
        lines = [f"{number:>2}  {mark}  {check.name}", *(f"          {each}" for each in faults)]
        show(args, record, "\n".join([*lines, f"          {check.repair}"] if faults else lines))
    show(args, {"checks": len(CHECKS), "failed": failed}, f"{len(CHECKS) - failed} of {len(CHECKS)} passed")
    return 1 if failed else 0


def _faults(check: Check, answers: Sequence[DeliveryAnswer]) -> list[str]:
    found = []
    for said in answers:
        if said.status is None:
            found.append(f"no answer: {said.error}")
        elif 300 <= said.status < 400:
            found.append(f"answered {said.status}: redirects are not followed; register the address it leads to")
        elif not (said.taken if check.wanted == _TAKEN else said.status in (401, 403)):
            found.append(f"answered {said.status}, not {check.wanted}")
        elif said.took_s > _SLOW_S:
            found.append(f"took {said.took_s:.1f} s: store the event, answer, and work afterwards; 10 s are the end")
    return list(dict.fromkeys(found))
