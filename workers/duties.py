"""The duties of a worker, and the Runner that runs them in this process.

A duty reads from PostgreSQL what is due, does some of it, and returns how much it did. It is called until it returns 0.
So a lost job, a restarted PostgreSQL or a missing Redis costs time and nothing else.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import structlog
from prometheus_client import Counter

import sql
from commands.charges.expire import Sweeper
from domain.mode import Mode
from runtime.coordination.heartbeats import beat
from runtime.coordination.lanes import (
    BOLETO_HINTS,
    BOLETO_ORDERS,
    LOCATION_POOL,
    PIX_HINTS,
    PIX_ORDERS,
    REFUND_ORDERS,
    WEBHOOKS,
    WITHDRAWAL_ORDERS,
)
from runtime.postgres import DB_UNAVAILABLE, session
from runtime.redis import REDIS_UNAVAILABLE
from workers.concurrency import rest
from workers.context import Context
from workers.housekeeping.backlog import measure_backlog
from workers.housekeeping.bank_calls import forget_bank_calls, store_bank_calls
from workers.housekeeping.expiry import sweep_expired
from workers.housekeeping.location_pool import LocationPool
from workers.housekeeping.months import forget_endpoints, keep_months
from workers.housekeeping.old_payers import erase_old_payers
from workers.housekeeping.partners import PartnerCopy, send_shares
from workers.housekeeping.reports import follow_journal, post_partner_shares
from workers.housekeeping.request_log_days import keep_days
from workers.housekeeping.verification import verify_nightly
from workers.incoming.hints import drain_boleto_hints, drain_pix_hints
from workers.incoming.reconciler import measure_lag, reconcile, reconcile_boletos
from workers.incoming.sent_transfers import reconcile_sent
from workers.mail.sender import MailSender, forget_mails, release_mails, write_due_mails
from workers.orders.boleto import BoletoOrderWorker
from workers.orders.lease import release_orders
from workers.orders.pix import PixOrderWorker
from workers.orders.refund import RefundOrderWorker
from workers.orders.withdrawal import WithdrawalOrderWorker, withdraw_daily
from workers.schedules import ScheduleWorker
from workers.webhooks.dispatcher import FINISH_S, WebhookDispatcher

JOB_S = 2.0
"""How long a job waits for its duty. The duty goes on without the job."""
_ROUNDS_MAX = 1_000
_BACKOFF_S_MAX = 2.0
_FAILED_ROUNDS_MIN = 3
"""Consecutive failed rounds after which a duty is reported as failing."""
_PAST_S = 30.0
"""A round that has run for this long, and for longer than the last failed round took, is past the fault. Under load one
round goes on for hours; without this bound a duty that works would be reported as failing all that time."""
_CANCELS_MAX = 15
_CANCEL_WAIT_S = 0.2
_TOKENS_KEPT = timedelta(hours=1)

_log = structlog.get_logger()
_duty_runs = Counter("duty_runs", "Rounds of a duty that did something or failed.", ["duty", "result"])

forget_expired_tokens = sql.count("credential.forget_expired_tokens")


class Duty(NamedTuple):
    name: str
    run: Callable[[], Awaitable[int]]
    every_s: float
    """How often it runs when nothing wakes it: one of the intervals of workers/settings.py."""
    in_each: bool = False
    """Whether each worker runs it at this interval, and not only the one that takes the cron: it is about the process
    itself, or a lease longer than the interval keeps it with one worker."""


def duties(context: Context, dispatcher: WebhookDispatcher, failing: Callable[[], list[str]]) -> list[Duty]:
    """The table of duties; `failing` returns those that fail. Jobs, too, run the duties that are named after a lane."""
    # fmt: off
    by_mode = [
        duty
        for mode in Mode
        for duty in (
            Duty(PIX_ORDERS[mode],    PixOrderWorker(context, mode).drain,     1),
            Duty(BOLETO_ORDERS[mode], BoletoOrderWorker(context, mode).drain,  1),
            Duty(REFUND_ORDERS[mode], RefundOrderWorker(context, mode).drain,  1),
            Duty(LOCATION_POOL[mode], LocationPool(context, mode).fill,          5),
        )
    ]
    by_bank = [
        duty
        for bank in context.banks.production
        for duty in (
            Duty(f"reconciler_{bank}",        partial(reconcile, context, bank),         30),
            Duty(f"boleto_reconciler_{bank}", partial(reconcile_boletos, context, bank), 60),
            Duty(f"sent_reconciler_{bank}",   partial(reconcile_sent, context, bank),   600),
        )
    ]
    return [
        *by_mode,
        *by_bank,
        Duty(WITHDRAWAL_ORDERS[Mode.PRODUCTION], WithdrawalOrderWorker(context).drain, 1),
        Duty("daily_withdrawals", partial(withdraw_daily, context),      30),
        Duty("release_orders",    partial(release_orders, context),       5),
        Duty(PIX_HINTS,           partial(drain_pix_hints, context),      1),
        Duty(BOLETO_HINTS,        partial(drain_boleto_hints, context),   1),
        Duty("expiry",            partial(sweep_expired, context, Sweeper(context.pool)),        5),
        Duty(WEBHOOKS,            dispatcher.drain,                       1),
        Duty("release_webhooks",  dispatcher.release,                     1),
        Duty("webhook_lanes",     dispatcher.tend,                        1),
        Duty("schedules",         ScheduleWorker(context).drain,          1),
        Duty("mail_writing",      partial(write_due_mails, context),      1),
        Duty("mail",              MailSender(context).drain,              1),
        Duty("release_mails",     partial(release_mails, context),       15),
        Duty("old_mails",         partial(forget_mails, context),       600),
        Duty("partner_shares",    partial(post_partner_shares, context),  1),
        Duty("shares_away",       partial(send_shares, context),          1),
        Duty("partner_copy",      PartnerCopy(context).follow,            1, in_each=True),
        Duty("reports",           partial(follow_journal, context),       1, in_each=True),
        Duty("months",            partial(keep_months, context),       3600),
        Duty("removed_endpoints", partial(forget_endpoints, context),     5),
        Duty("old_payers",        partial(erase_old_payers, context),   600),
        Duty("backlog",           partial(measure_backlog, context),     15, in_each=True),
        Duty("reconciler_lag",    partial(measure_lag, context),         30, in_each=True),
        Duty("bank_calls",        partial(store_bank_calls, context),    60, in_each=True),
        Duty("old_bank_calls",    partial(forget_bank_calls, context), 3600),
        Duty("verification",      partial(verify_nightly, context),      60),
        Duty("heartbeat",         partial(store_heartbeat, context, failing), 5, in_each=True),
        Duty("request_log_days",  partial(keep_days, context),         3600),
        Duty("expired_tokens",    partial(forget_tokens, context),      600),
    ]
    # fmt: on


async def forget_tokens(context: Context) -> int:
    """Delete access tokens an hour after they expired; returns how many."""
    async with session(context.pool) as conn:
        return await forget_expired_tokens(conn, now=context.now(), kept=_TOKENS_KEPT)


async def store_heartbeat(context: Context, failing: Callable[[], list[str]]) -> int:
    async with session(context.pool) as conn:
        await beat(conn, worker=context.worker, failing=failing())
    return 0


class _FailedRounds(NamedTuple):
    rounds: int
    """Consecutive rounds that failed."""
    latest_took_s: float
    """How long the latest of them took."""


class Runner:
    """Runs duties in this process, each once at a time. A duty that is woken while it runs, runs once more after."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.duties: dict[str, Duty] = {}
        self._woken: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._began_at: dict[str, float] = {}
        self._failures: dict[str, _FailedRounds] = {}
        self._context = contextvars.copy_context()  # that of the worker: it names the cell

    def failing(self) -> list[str]:
        """The duties whose latest rounds all failed."""
        now = asyncio.get_running_loop().time()
        return sorted(
            name
            for name, failed in self._failures.items()
            if failed.rounds >= _FAILED_ROUNDS_MIN
            and now - self._began_at[name] <= max(_PAST_S, failed.latest_took_s + _BACKOFF_S_MAX)
        )

    def add(self, duties: Iterable[Duty]) -> None:
        self.duties |= {duty.name: duty for duty in duties}

    def wake(self, name: str) -> None:
        """Run the duty of this name soon. A name that this worker does not know is another worker's, and is ignored."""
        if name not in self.duties or self.stopping.is_set():
            return
        self._woken.add(name)
        if name not in self._tasks or self._tasks[name].done():
            # Not in the context of the caller, who may be handling a request, whose variables are not the duty's.
            self._tasks[name] = asyncio.create_task(
                self._run_while_woken(self.duties[name]), name=name, context=self._context.copy()
            )

    async def run(self, *names: str, asked_s_ago: float = 0.0) -> None:
        """Run these duties, except those that began after they were asked for, and wait for them, at most JOB_S."""
        asked_at = asyncio.get_running_loop().time() - asked_s_ago
        for name in names:
            if self._began_at.get(name, asked_at - 1) < asked_at:
                self.wake(name)
        if tasks := [self._tasks[name] for name in names if name in self._tasks]:
            await asyncio.wait(tasks, timeout=JOB_S)

    def sweep(self) -> None:
        """Run every duty that has not begun for its interval."""
        now = asyncio.get_running_loop().time()
        for duty in self.duties.values():
            if now - self._began_at.get(duty.name, -duty.every_s) >= duty.every_s:
                self.wake(duty.name)

    async def wake_at_intervals(self) -> None:
        """Wake the duties of each worker at their intervals, with or without Redis; runs for ever."""
        async with asyncio.TaskGroup() as waking:
            for duty in self.duties.values():
                if duty.in_each:
                    waking.create_task(self._wake_at_interval(duty))

    async def _wake_at_interval(self, duty: Duty) -> None:
        while True:
            self.wake(duty.name)
            await asyncio.sleep(duty.every_s)

    async def stop(self) -> None:
        """Begin no new round; give running rounds FINISH_S to end, then cancel them."""
        self.stopping.set()
        if running := [task for task in self._tasks.values() if not task.done()]:
            _, late = await asyncio.wait(running, timeout=FINISH_S)
            if late:
                _log.warning("duties_cut_short", duties=[task.get_name() for task in late])
                await end(*late)

    async def _run_while_woken(self, duty: Duty) -> None:
        while duty.name in self._woken and not self.stopping.is_set():
            self._woken.discard(duty.name)
            began_at = self._began_at[duty.name] = asyncio.get_running_loop().time()
            try:
                await self._run_rounds(duty)
            except Exception as error:
                previous = self._failures.get(duty.name)
                failures = 1 if previous is None else previous.rounds + 1
                self._failures[duty.name] = _FailedRounds(failures, asyncio.get_running_loop().time() - began_at)
                self._woken.add(duty.name)
                self._report_failure(duty, failures, error)
                await rest(self.stopping, min(0.1 * 2 ** min(failures, 10), _BACKOFF_S_MAX))

    async def _run_rounds(self, duty: Duty) -> None:
        for _ in range(_ROUNDS_MAX):
            done = await duty.run()
            self._failures.pop(duty.name, None)
            if done:
                _duty_runs.labels(duty.name, "done").inc()
            if not done or self.stopping.is_set():
                return
        self._woken.add(duty.name)  # there is more to do; the event loop serves the other duties in between

    def _report_failure(self, duty: Duty, failures: int, error: Exception) -> None:
        _duty_runs.labels(duty.name, "failed").inc()
        if isinstance(error, DB_UNAVAILABLE + REDIS_UNAVAILABLE):
            if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th ...: an outage does not flood the log
                _log.warning("duty_waits", duty=duty.name, failures=failures, error=type(error).__name__)
        else:
            _log.error("duty_failed", duty=duty.name, failures=failures, exc_info=error)


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait, at most 3 s. Cancels repeatedly, because the Redis client can swallow a cancellation
    while it connects."""
    left = set(tasks)
    for _ in range(_CANCELS_MAX):
        if not left:
            break
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCEL_WAIT_S)
    if left:
        _log.error("tasks_not_ended", tasks=[task.get_name() for task in left])
    for task in set(tasks) - left:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report an error that came with the end
