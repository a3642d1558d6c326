"""What a worker has to do, and the loop that keeps each of it going.

A duty looks into PostgreSQL for what is to be done, does some, and answers how much it did. It is
called until it answers 0, then rests until its bell rings or its interval is over. So a lost ring, a
restarted PostgreSQL and a missing Redis all cost time and nothing else.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple, cast

import structlog
from prometheus_client import Counter
from redis.asyncio import Redis

import sql
from domain.mode import Mode
from runtime.jobs import (
    BANK_HINTS,
    BOLETO_ORDERS,
    LOCATION_POOL,
    NAMES,
    PIX_ORDERS,
    REFUND_ORDERS,
    WEBHOOKS,
    WITHDRAWAL_ORDERS,
    list_of,
)
from runtime.postgres import DB_UNAVAILABLE, session
from runtime.redis import REDIS_UNAVAILABLE
from workers.context import Context
from workers.housekeeping.expiry import sweep_expired
from workers.housekeeping.feed_months import forget_deliveries, keep_months
from workers.housekeeping.location_pool import fill_pool
from workers.housekeeping.reports import fold_reports, post_partner_shares
from workers.housekeeping.request_log_days import keep_days
from workers.incoming.boleto_payments import reconcile_boletos
from workers.incoming.hints import drain_hints
from workers.incoming.reconciler import reconcile
from workers.mail.sender import MailSender, forget_mails, release_mails, write_due_mails
from workers.orders.boleto import BoletoOrderWorker
from workers.orders.lease import release_orders
from workers.orders.pix import drain_orders
from workers.orders.refund import RefundOrderWorker
from workers.orders.withdrawal import WithdrawalOrderWorker, withdraw_daily
from workers.schedules import ScheduleWorker
from workers.webhooks.dispatcher import FINISH_S, WebhookDispatcher

_ROUNDS_MAX = 1_000
_BACKOFF_S_MAX = 2.0
_LISTEN_S = 5
_CANCELS_MAX = 15
_CANCEL_S = 0.2
_TOKENS_KEPT = timedelta(hours=1)
_DELETED = "DELETE "

_log = structlog.get_logger()
_runs = Counter("duty_runs", "Rounds of a duty that did something or failed.", ["duty", "result"])

forget_expired_tokens = sql.run("credential.forget_expired_tokens")


class Duty(NamedTuple):
    name: str
    run: Callable[[], Awaitable[int]]
    every_s: float
    """How long it may rest when nobody rings."""


def duties(context: Context, dispatcher: WebhookDispatcher) -> list[Duty]:
    """The table of duties. A name that is also a bell's is woken by it."""
    # fmt: off
    return [
        Duty(PIX_ORDERS[Mode.SANDBOX],    partial(drain_orders, context, Mode.SANDBOX),   1.0),
        Duty(PIX_ORDERS[Mode.PRODUCTION],   partial(drain_orders, context, Mode.PRODUCTION),  1.0),
        Duty(BOLETO_ORDERS[Mode.SANDBOX],    BoletoOrderWorker(context, Mode.SANDBOX).drain,          1.0),
        Duty(BOLETO_ORDERS[Mode.PRODUCTION],   BoletoOrderWorker(context, Mode.PRODUCTION).drain,         1.0),
        Duty(REFUND_ORDERS[Mode.SANDBOX],  RefundOrderWorker(context, Mode.SANDBOX).drain,        1.0),
        Duty(REFUND_ORDERS[Mode.PRODUCTION], RefundOrderWorker(context, Mode.PRODUCTION).drain,       1.0),
        Duty(WITHDRAWAL_ORDERS[Mode.PRODUCTION], WithdrawalOrderWorker(context).drain,      1.0),
        Duty("daily_withdrawals",  partial(withdraw_daily, context),      30.0),
        Duty("release_orders",     partial(release_orders, context),       5.0),
        Duty(LOCATION_POOL[Mode.SANDBOX],  partial(fill_pool, context, Mode.SANDBOX),      5.0),
        Duty(LOCATION_POOL[Mode.PRODUCTION], partial(fill_pool, context, Mode.PRODUCTION),     5.0),
        Duty(BANK_HINTS,           partial(drain_hints, context),          1.0),
        Duty("reconciler",         partial(reconcile, context),           30.0),
        Duty("boleto_reconciler",    partial(reconcile_boletos, context),     60.0),
        Duty("expiry",             partial(sweep_expired, context),        5.0),
        Duty(WEBHOOKS,             dispatcher.drain,                          1.0),
        Duty("release_webhooks",   dispatcher.release,                        1.0),
        Duty("webhook_lanes",      dispatcher.tend,                           1.0),
        Duty("schedules",          ScheduleWorker(context).drain,            1.0),
        Duty("mail_writing",       partial(write_due_mails, context),      1.0),
        Duty("mail",               MailSender(context).drain,                1.0),
        Duty("release_mails",      partial(release_mails, context),       15.0),
        Duty("old_mails",          partial(forget_mails, context),       600.0),
        Duty("partner_shares",     partial(post_partner_shares, context),  1.0),
        Duty("reports",            partial(fold_reports, context),         1.0),
        Duty("feed_months",        partial(keep_months, context),       3600.0),
        Duty("old_deliveries",     partial(forget_deliveries, context),  600.0),
        Duty("request_log_days",   partial(keep_days, context),         3600.0),
        Duty("expired_tokens",     partial(forget_tokens, context),      600.0),
    ]
    # fmt: on


async def forget_tokens(context: Context) -> int:
    """Delete access tokens an hour after they expired; answers how many."""
    async with session(context.pool) as conn:
        done = await forget_expired_tokens(conn, before=context.now() - _TOKENS_KEPT)
    return int(done.removeprefix(_DELETED))


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel and wait, at most 3 s. More than once: the Redis client can swallow it while it connects."""
    left = {task for task in tasks if not task.done()}
    for _ in range(_CANCELS_MAX):
        if not left:
            return
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCEL_S)
    _log.error("tasks_not_ended", tasks=[task.get_name() for task in left])


class Scheduler:
    """Keeps duties going until it is told to stop."""

    def __init__(self) -> None:
        self._rung: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.stopping = asyncio.Event()

    def wake(self, name: str) -> None:
        """Have the duty of this name look now. An unknown name is somebody else's duty: nothing happens."""
        if name in self._rung:
            self._rung[name].set()

    def stop(self) -> None:
        """Begin no new round."""
        self.stopping.set()
        for event in self._rung.values():
            event.set()

    async def run(self, table: Sequence[Duty], listener: Redis) -> None:
        """Do the duties until `stop`, then let each end its round (FINISH_S); `listener` hears the bells."""
        for duty in table:
            self._rung[duty.name].set()  # whatever waited while nobody was here
        tasks = [asyncio.create_task(self._keep(duty), name=duty.name) for duty in table]
        ears = asyncio.create_task(self._listen(listener))
        try:
            await self.stopping.wait()
            _, late = await asyncio.wait(tasks, timeout=FINISH_S)
            if late:
                _log.warning("duties_cut_short", duties=[task.get_name() for task in late])
        finally:
            await end(ears, *tasks)

    async def _keep(self, duty: Duty) -> None:
        rung = self._rung[duty.name]
        failures = 0
        while not self.stopping.is_set():
            rung.clear()
            try:
                await self._work(duty)
                failures = 0
            except Exception as error:
                failures += 1
                self._tell(duty, failures, error)
            if failures:
                await self._rest(self.stopping, min(0.1 * 2**failures, _BACKOFF_S_MAX))
            else:
                await self._rest(rung, duty.every_s)

    async def _work(self, duty: Duty) -> None:
        for _ in range(_ROUNDS_MAX):
            done = await duty.run()
            if done:
                _runs.labels(duty.name, "done").inc()
            if not done or self.stopping.is_set():
                return
        self._rung[duty.name].set()  # there is more; the others get their turn of the loop in between

    async def _rest(self, until: asyncio.Event, most_s: float) -> None:
        try:
            async with asyncio.timeout(most_s):
                await until.wait()
        except TimeoutError:
            pass

    def _tell(self, duty: Duty, failures: int, error: Exception) -> None:
        _runs.labels(duty.name, "failed").inc()
        if isinstance(error, DB_UNAVAILABLE + REDIS_UNAVAILABLE):
            if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th ...: an outage is one story
                _log.warning("duty_waits", duty=duty.name, failures=failures, error=type(error).__name__)
        else:
            _log.error("duty_failed", duty=duty.name, failures=failures, exc_info=error)

    async def _listen(self, redis: Redis) -> None:
        """One reader for all bells. What was rung while Redis was away is made up for by waking everybody."""
        keys = [list_of(name) for name in NAMES]
        prefix = list_of("")
        deaf = False
        while True:
            try:
                # Redis ends the wait; the longer bound is for a connection that died without a word.
                async with asyncio.timeout(_LISTEN_S * 2):
                    heard = await cast("Awaitable[list[bytes] | None]", redis.blpop(keys, timeout=_LISTEN_S))
                if deaf:
                    deaf = False
                    _log.info("bells_heard_again")
                    for name in NAMES:
                        self.wake(name)
                if heard:
                    self.wake(heard[0].decode().removeprefix(prefix))
            except Exception as error:
                if not deaf:
                    _log.warning("bells_not_heard", error=type(error).__name__)
                deaf = True
                await asyncio.sleep(0.5)
