"""What a merchant's people do with their endpoint beside what `webhooks` holds: move it, and try it out."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from banks.protocol import Location
from commands.bank_orders.pix_locations import take_block
from commands.charges.change import change_charges
from commands.charges.create_pix import Creation, compose_pix, create_pix
from commands.charges.issuer import Issuer
from commands.charges.pay import simulated_payment
from commands.webhooks.endpoint import fault_of
from domain.errors import Code, Refused
from domain.instants import to_millisecond
from domain.mode import Mode, Owner
from domain.pix.br_code import end_to_end_id
from runtime.ids import new_id
from runtime.seal import Seal
from sql import Connection

TRIAL_CENTS = 100
TRIAL_DESCRIPTION = "Teste do webhook, pelo painel"
_TRIAL_LIFETIME_S = 3_600
# The ISPB of the sandbox's bank: no institution has it.
_SANDBOX_ISPB = "99999999"


class _Endpoint(Struct, frozen=True):
    endpoint_id: UUID


class _Account(Struct, frozen=True):
    name: str
    city: str
    pix_key: str
    ahead_s: int


_move = sql.maybe("webhook_settings.move", _Endpoint)
_account = sql.one("webhook_settings.account", _Account)


async def move_endpoint(conn: Connection, account_id: UUID, url: str, *, allow_private: bool) -> None:
    """Tell this account's events to `url` from now on, signed with the secret they are signed with already.

    Refused(VALIDATION_ERROR) for a URL that cannot be, and for an account without an endpoint. What its name resolves
    to is for `check_address`, before.
    """
    fault = fault_of(url, allow_private=allow_private)
    if fault is None and await _move(conn, account_id=account_id, url=url) is None:
        fault = "The account has no webhook address."
    if fault is not None:
        raise Refused(Code.VALIDATION_ERROR, fields={"url": fault})


async def send_trial(
    conn: Connection, account_id: UUID, *, now: datetime, actor: str, request_id: str, tail: str, seal: Seal
) -> UUID:
    """A sandbox charge of 1.00, paid at once: its payment.received goes the way every event goes, and whoever reads
    the charge again through the API, as receivers should, finds it. Answers the charge's id.

    `tail`: eleven letters and digits by chance, the end of the payment's endToEndId.

    Refused(BANK_UNAVAILABLE) while the sandbox has no location left.
    """
    now = to_millisecond(now)
    places = await take_block(conn, test=True, most=1, low=0)
    if not places:
        raise Refused(Code.BANK_UNAVAILABLE)
    (place,) = places
    account = await _account(conn, account_id=account_id)
    charge_id = new_id()
    creation = Creation(
        issuer=Issuer(
            account_id=account_id,
            test=True,
            name=account.name,
            city=account.city,
            pix_key=account.pix_key,
            actor=actor,
            ahead_s=account.ahead_s,
        ),
        # Its own id: a key nobody else can have used.
        key=f"trial-{charge_id}",
        fingerprint=bytes(32),
        charge_id=charge_id,
        request_id=request_id,
        now=now,
        amount_cents=TRIAL_CENTS,
        lifetime_s=_TRIAL_LIFETIME_S,
        external_id=None,
        description=TRIAL_DESCRIPTION,
        payer_sealed=None,
        payer_document_hash=None,
        scenario=None,
    )
    location = Location(place.location_id, place.location)
    made = await create_pix(conn, [compose_pix(creation, location)])
    assert made == {charge_id}, "a key of its own is new"
    wish = simulated_payment(
        charge_id,
        Owner(account_id, Mode.SANDBOX),
        end_to_end_id=end_to_end_id(_SANDBOX_ISPB, now, tail),
        seal=seal,
        actor=actor,
        request_id=request_id,
    )
    (outcome,) = await change_charges(conn, [wish], now=now)
    assert not isinstance(outcome, Refused), "a charge made this moment is pending"
    return charge_id
