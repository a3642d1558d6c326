"""A receiver can verify a webhook, by our own scheme and with the library of Standard Webhooks."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from domain.webhooks.signature import delivery_headers, secret_text, sign, standard_signature

SECRET = secret_text(bytes(range(32)))
OLD = secret_text(bytes(32))
BODY = '{"external_id":"ação / \\"x\\" \u2028 💸","amount":"10.00"}'.encode()
EVENT_ID = UUID("01920000-0000-7000-8000-000000000001")
DELIVERY_ID = UUID("01920000-0000-7000-8000-000000000002")


DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLE = r"""```text
\S+: +(whsec_\S+)
webhook-id: +(\S+)
\S+: +([0-9]+)
\S+: +({\S+})
X-Service-Signature: +(\S+)
webhook-signature: +(\S+)
```"""


def headers(*, old_secrets: Sequence[str] = (), attempt: int = 1) -> dict[str, str]:
    return delivery_headers(
        event="payment.received",
        event_id=EVENT_ID,
        delivery_id=DELIVERY_ID,
        attempt=attempt,
        timestamp=int(datetime.now(UTC).timestamp()),
        body=BODY,
        secret=SECRET,
        old_secrets=old_secrets,
    )


def test_the_signing_key_is_the_text_of_the_secret_as_shown() -> None:
    expected = hmac.new(SECRET.encode(), b"1750000000." + BODY, hashlib.sha256).hexdigest()
    assert sign(SECRET, 1_750_000_000, BODY) == expected


@pytest.mark.parametrize("page", ["webhooks.md", "pt/webhooks.md"])
def test_the_documented_example_has_the_signatures_that_the_service_makes(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    secret, event_id, timestamp, body, ours, standard = re.search(EXAMPLE, text).groups()  # type: ignore[union-attr]
    assert ours == "sha256=" + sign(secret, int(timestamp), body.encode())
    assert standard == standard_signature(secret, event_id, int(timestamp), body.encode())


def test_the_standard_signature_equals_the_example_of_standard_webhooks() -> None:
    signature = standard_signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330,
        b'{"test": 2432232314}',
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_standard_webhooks_library_verifies_a_delivery() -> None:
    verified = Webhook(SECRET).verify(BODY, headers())
    assert verified["amount"] == "10.00"


def test_another_secret_or_another_body_does_not_verify() -> None:
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(BODY, headers())
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY.replace(b"10.00", b"99.00"), headers())


def test_the_headers_are_those_of_the_contract() -> None:
    given = headers(attempt=3)
    timestamp = given["X-Service-Timestamp"]
    assert given == {
        "Content-Type": "application/json",
        "User-Agent": "Quita-Webhooks/1.0",
        "X-Service-Event": "payment.received",
        "X-Service-Timestamp": timestamp,
        "X-Service-Signature": "sha256=" + sign(SECRET, int(timestamp), BODY),
        "X-Service-Delivery-Id": str(DELIVERY_ID),
        "X-Service-Attempt": "3",
        "webhook-id": str(EVENT_ID),
        "webhook-timestamp": timestamp,
        "webhook-signature": standard_signature(SECRET, str(EVENT_ID), int(timestamp), BODY),
    }


def test_during_a_rotation_both_secrets_verify_and_the_main_header_holds_one_value() -> None:
    given = headers(old_secrets=[OLD])
    timestamp = int(given["X-Service-Timestamp"])
    assert given["X-Service-Signature"] == "sha256=" + sign(SECRET, timestamp, BODY)
    assert given["X-Service-Signature-Previous"] == "sha256=" + sign(OLD, timestamp, BODY)
    Webhook(SECRET).verify(BODY, given)
    Webhook(OLD).verify(BODY, given)


def test_several_old_secrets_each_verify_and_share_one_header_newest_first() -> None:
    oldest = secret_text(bytes([7]) * 32)
    given = headers(old_secrets=[OLD, oldest])
    timestamp = int(given["X-Service-Timestamp"])
    signatures = [f"sha256={sign(each, timestamp, BODY)}" for each in (OLD, oldest)]
    assert given["X-Service-Signature-Previous"] == ", ".join(signatures)
    for each in (SECRET, OLD, oldest):
        Webhook(each).verify(BODY, given)
