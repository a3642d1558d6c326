"""What every duty of a worker is handed: nothing is looked up from thin air."""

import asyncio
from collections.abc import Callable
from datetime import datetime

import aiohttp
from msgspec import Struct, field
from redis.asyncio import Redis

from banks.protocol import Bank
from domain.mode import Mode
from runtime.jobs import Jobs
from runtime.postgres import Pool
from runtime.seal import Seal
from runtime.settings import Settings


class Context(Struct):
    settings: Settings
    pool: Pool
    redis: Redis
    jobs: Jobs
    seal: Seal
    http: aiohttp.ClientSession
    """For banks. Webhooks have a session of their own, whose resolver refuses addresses that are not public."""
    banks: dict[Mode, Bank]
    """The simulated bank for sandbox mode, the real adapter for production."""
    now: Callable[[], datetime]
    worker: str
    """The name of this process, for logs and leases."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Once it is set nothing new is to be begun."""
