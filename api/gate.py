"""Whether an account may issue charges now, and how the simulated bank is to behave for it (X-Sandbox-Bank).

What depends on time or state is looked at after the key, so that a replay is answered whatever has changed since.
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
    description="How the simulated bank is to behave; looked at with test credentials only.",
)


async def approved(context: ApiContext, call: Call) -> bool:
    """Whether the account may issue charges (contract section 14): always in sandbox. A yes may rest on what is
    remembered, as of an account that was blocked this second: what writes a charge looks itself."""
    return call.caller.approved or await approved_now(context, call)


async def approved_now(context: ApiContext, call: Call) -> bool:
    """The same, as it is at this moment."""
    if call.caller.test:
        return True
    call.caller = await context.callers.again(call.caller)
    return call.caller.approved


async def check_terms(context: ApiContext, call: Call, integrador_code: str | None) -> None:
    """That the account is approved at this moment, whatever is remembered of it, the partner active and the account's
    address complete: a boleto is not printed without it."""
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
    """X-Sandbox-Bank, for test credentials (contract section 14)."""
    given = call.header(b"x-sandbox-bank") if call.caller.test else None
    if given is None:
        return None
    scenario = given.decode("latin-1")
    if scenario not in SCENARIOS:
        raise Refused(Code.VALIDATION_ERROR, fields={"X-Sandbox-Bank": f"must be one of {', '.join(SCENARIOS)}"})
    return scenario


async def payers_bank(scenario: str | None) -> None:
    """What the bank of a PIX charge's payer does where X-Sandbox-Bank says so. There is no order to try again, and a
    lost reply is the payer's loss: the payment is made, and told to us by our bank."""
    if scenario in ("unavailable", "refuse"):
        raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)
    if scenario == "slow":
        await asyncio.sleep(SLOW_S)


def sandbox_payment_id(at: datetime) -> str:
    """The endToEndId of a payment that a sandbox payer makes."""
    return sandbox_end_to_end_id(at, secrets.token_bytes(TAIL_BYTES))
