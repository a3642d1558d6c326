"""Checks whether an account may issue charges now, and reads how the simulated bank shall behave (X-Sandbox-Bank).

Checks that depend on time or state come after the idempotency lookup, so that a replay is answered whatever has
changed since.
"""

import asyncio
import secrets
from datetime import datetime
from typing import Final

from api.context import ApiContext
from api.route import Call, Parameter
from banks.scenario import SCENARIOS, SLOW_S
from commands.bank_orders.boleto_issuer import RETRY_AFTER_S
from commands.bank_orders.boleto_orders import find_terms
from domain.errors import Code, Refused
from domain.merchants.address import is_complete
from domain.pix.end_to_end import TAIL_BYTES, sandbox_end_to_end_id
from runtime.postgres import session

SANDBOX_BANK: Final = Parameter(
    name="X-Sandbox-Bank",
    schema={"type": "string", "enum": list(SCENARIOS)},
    description="How the simulated bank behaves for this request; ignored with production credentials.",
)


async def approved(context: ApiContext, call: Call) -> bool:
    """Whether the account may issue charges (contract section 14): always in sandbox. A yes may come from the cache of
    callers, up to REMEMBER_S old; the statement that writes the charge checks again. A no is always current."""
    return call.caller.approved or await approved_now(context, call)


async def approved_now(context: ApiContext, call: Call) -> bool:
    """As `approved`, but never from the cache of callers."""
    if call.caller.test:
        return True
    call.caller = await context.callers.reread(call.caller)
    return call.caller.approved


async def check_terms(context: ApiContext, call: Call, integrador_code: str | None) -> None:
    """Refused unless the account is approved now (read from the database, not from the cache of callers), the partner
    is active, and the account's address is complete: a boleto cannot be printed without it."""
    async with session(context.pool) as conn:
        terms = await find_terms(conn, account_id=call.caller.account_id, integrador_code=integrador_code)
    if terms is None:
        raise Refused(Code.UNAUTHENTICATED)
    if not (terms.approved or call.caller.test):
        raise Refused(Code.KYC_REQUIRED)
    if integrador_code is not None and not terms.integrator_active:
        raise Refused(Code.INTEGRADOR_CODE_INVALID)
    if not is_complete(terms.address):
        raise Refused(Code.MERCHANT_ADDRESS_REQUIRED)


def scenario_of(call: Call) -> str | None:
    """The value of X-Sandbox-Bank (contract section 14); None without one, and for production credentials."""
    header = call.header(b"x-sandbox-bank") if call.caller.test else None
    if header is None:
        return None
    scenario = header.decode("latin-1")
    if scenario not in SCENARIOS:
        raise Refused(Code.VALIDATION_ERROR, fields={"X-Sandbox-Bank": f"must be one of {', '.join(SCENARIOS)}"})
    return scenario


async def play_payers_bank(scenario: str | None) -> None:
    """Plays the payer's bank for a simulated PIX payment, as X-Sandbox-Bank says: refuses, or is slow. `lost_reply`
    changes nothing here: no order to a bank waits for a reply, and the payment itself is made and reported to us."""
    if scenario in ("unavailable", "refuse"):
        raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)
    if scenario == "slow":
        await asyncio.sleep(SLOW_S)


def sandbox_payment_id(at: datetime) -> str:
    """The endToEndId of a payment that a sandbox payer makes."""
    return sandbox_end_to_end_id(at, secrets.token_bytes(TAIL_BYTES))
