"""What a merchant's people do with their endpoint beside what `webhooks` holds: move it, and try it out."""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.change import change_charges
from commands.create_pix import NewPix, create_pix
from commands.locations import take_block
from commands.pay import simulated_payment
from commands.webhooks import fault_of
from domain.br_code import dynamic_br_code, end_to_end_id
from domain.errors import Code, Refused
from domain.instants import iso, to_millisecond
from domain.sandbox_clock import on_clock
from readmodels.charge import ChargeDoc
from runtime.ids import new_id, new_token
from runtime.seal import Seal
from sql import Connection

TRIAL_CENTS = 100
TRIAL_DESCRIPTION = "Teste do webhook, pelo painel"
_TRIAL_LIFETIME = timedelta(hours=1)
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
    created_at = on_clock(now, account.ahead_s)
    charge_id = new_id()
    doc = ChargeDoc(
        account_id=str(account_id),
        charge_id=str(charge_id),
        test=True,
        public_id=new_token(),
        payment_method="pix",
        status="pending",
        version=1,
        amount_cents=TRIAL_CENTS,
        description=TRIAL_DESCRIPTION,
        txid=charge_id.hex,
        qr_code=dynamic_br_code(
            location=place.location, amount_cents=TRIAL_CENTS, name=account.name, city=account.city
        ),
        created_at=iso(created_at),
        expires_at=iso(created_at + _TRIAL_LIFETIME),
    )
    order = {
        "amount_cents": TRIAL_CENTS,
        "expires_in_s": int(_TRIAL_LIFETIME.total_seconds()),
        "created_at": doc.created_at,
        "location_id": place.location_id,
        "pix_key": account.pix_key,
        "description": TRIAL_DESCRIPTION,
    }
    made = await create_pix(
        conn,
        [
            NewPix(
                account_id=account_id,
                test=True,
                # Its own id: a key nobody else can have used.
                key=f"trial-{charge_id}",
                fingerprint=bytes(32),
                charge_id=charge_id,
                order_id=new_id(),
                at=now if account.ahead_s else None,
                created_at=created_at,
                expires_at=created_at + _TRIAL_LIFETIME,
                location=place.location,
                payer_sealed=None,
                actor=actor,
                request_id=request_id,
                doc=doc,
                order=msgspec.json.encode(order),
            )
        ],
    )
    assert made == {charge_id}, "a key of its own is new"
    wish = simulated_payment(
        charge_id,
        (account_id, True),
        end_to_end_id=end_to_end_id(_SANDBOX_ISPB, now, tail),
        seal=seal,
        actor=actor,
        request_id=request_id,
    )
    (outcome,) = await change_charges(conn, [wish], now=now)
    assert not isinstance(outcome, Refused), "a charge made this moment is pending"
    return charge_id
