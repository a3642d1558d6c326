"""The address on which banks call us back, registered for each PIX key of production."""

import asyncio
from collections.abc import Sequence

import structlog

import sql
from banks.protocol import Done, Unknown
from commands.bank_orders.kinds import OrderKind
from runtime.postgres import session
from workers.context import Context
from workers.orders.lease import CALL_S
from workers.orders.pix_requests import PixOrder, read_cob

_KEYS_MAX = 4
_KEY_RETRY_S = 30.0  # before another try, when the bank did not take our address

_log = structlog.get_logger()

callback_registered = sql.run("bank_order.callback_registered")
callback_refused = sql.run("bank_order.callback_refused")


def callback_url(context: Context) -> str:
    return f"{context.settings.base_url}/bank/{context.settings.bank_callback_token}"


class CallbackKeys:
    """Registers our callback beside the orders, one call at a time per bank: at a bank that does not answer this call,
    there would be as many calls under way as orders, and no cob would be registered. A failure is only logged: the
    reconciler asks in any case, and a later order for the key tries again."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._clock = asyncio.get_running_loop().time
        self._banks_called: set[str] = set()
        self._retry_at: dict[tuple[str, str], float] = {}  # (bank, key) that the bank did not take

    def to_register(self, orders: Sequence[PixOrder]) -> dict[str, list[str]]:
        """Keys for which their bank does not call back yet, by bank; none of a bank during a call to it."""
        url, now = callback_url(self._context), self._clock()
        unregistered = {
            (order.bank, read_cob(order.request).pix_key)
            for order in orders
            if order.kind == OrderKind.COB_REGISTER and order.callback_url != url
        }
        keys: dict[str, list[str]] = {}
        for bank, key in sorted(unregistered):
            if bank not in self._banks_called and self._retry_at.get((bank, key), now) <= now:
                keys.setdefault(bank, []).append(key)
        return {bank: keys_of_bank[:_KEYS_MAX] for bank, keys_of_bank in keys.items()}

    async def register(self, bank: str, keys: Sequence[str]) -> None:
        confirmed: list[str] = []
        self._banks_called.add(bank)
        try:
            confirmed = await register_keys(self._context, bank, keys)
        except Exception as error:
            _log.info("bank_callback_not_registered", error=type(error).__name__)
        finally:
            self._banks_called.discard(bank)
            now = self._clock()
            waiting = {key: until for key, until in self._retry_at.items() if until > now}
            self._retry_at = waiting | {(bank, key): now + _KEY_RETRY_S for key in set(keys) - set(confirmed)}


async def register_keys(context: Context, bank: str, keys: Sequence[str]) -> list[str]:
    """Register our callback for these keys at their bank; stores and returns those that the bank confirmed. A refused
    key keeps no other from being registered; after a call without an answer no more are made."""
    url = callback_url(context)
    confirmed = []
    for key in keys:
        try:
            async with asyncio.timeout(CALL_S):
                answer = await context.banks.production[bank].pix.register_callback(key, url)
        except TimeoutError:
            answer = Unknown("no answer in time")  # raised, it would keep the reconciler from reading the bank's lists
        if not isinstance(answer, Done):
            detail = answer.detail if isinstance(answer, Unknown) else answer.code
            _log.info("bank_callback_not_registered", detail=detail)
        if isinstance(answer, Unknown):
            break
        async with session(context.pool) as conn:
            if isinstance(answer, Done):
                await callback_registered(conn, bank=bank, pix_key=key, url=url, now=context.now())
                confirmed.append(key)
            else:  # the key's next order asks again; the reconciler would ask each round, and for no other key
                await callback_refused(conn, bank=bank, pix_key=key)
    return confirmed
