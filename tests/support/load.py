"""Clients that create and pay charges while a test causes a fault, and the answers they got."""

import asyncio
from collections import Counter
from typing import Any
from uuid import uuid4

import aiohttp
from redis.asyncio import Redis

from tests.support.merchant import Answer, ApiClient, until_answer

GOES_ON = 60
GONE = (aiohttp.ClientError, OSError, TimeoutError)


class Load:
    """Clients that create and pay charges without retries. `told` counts the answers they got."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.tried: list[str] = []
        self.created: dict[str, str] = {}
        """The charge ids of acknowledged creations, by idempotency key."""
        self.paid: set[str] = set()
        """The charge ids of acknowledged payments."""
        self.told: Counter[int | str] = Counter()
        self.over = False

    async def goes_on(self) -> None:
        """Wait until GOES_ON more charges have been created and paid, which shows that the system works under load."""
        until_now = len(self.paid)

        async def more() -> bool:
            return len(self.paid) >= until_now + GOES_ON

        try:
            await until_answer(more, within_s=30)
        except AssertionError:
            raise AssertionError(f"the load does not go on: {self.told}") from None

    async def run_client(self) -> None:
        while not self.over:
            key = str(uuid4())
            self.tried.append(key)
            answer = await self._count_answer(self.client.create("10.00", key=key, external_id=key))
            if answer is None or answer.status != 201:
                await asyncio.sleep(0.05)
                continue
            charge_id = self.created[key] = answer.body["charge_id"]
            answer = await self._count_answer(self.client.pay(charge_id))
            if answer is not None and answer.status == 200:
                self.paid.add(charge_id)

    async def _count_answer(self, asked: Any) -> Answer | None:
        try:
            answer: Answer = await asked
        except GONE:
            self.told["connection lost"] += 1
            return None
        self.told[answer.status] += 1
        return answer

    async def assert_nothing_is_lost(self, redis_url: str) -> None:
        """Compare the acknowledged creations and payments with charges, events, payments and ledger."""
        client = self.client
        redis = Redis.from_url(redis_url)
        await redis.flushall()  # otherwise locks of killed processes lapse after 15 s, which is not tested here
        await redis.aclose()
        # The same key now gives the same charge, also for creations that got no answer.
        again: dict[str, Answer] = {}
        for at in range(0, len(self.tried), 100):
            keys = self.tried[at : at + 100]
            answers = await asyncio.gather(*(client.create("10.00", key=key, external_id=key) for key in keys))
            again |= zip(keys, answers, strict=True)
        assert {answer.status for answer in again.values()} <= {200, 201}
        for key, charge_id in self.created.items():
            assert (again[key].status, again[key].body["charge_id"]) == (200, charge_id)

        charges = await client.all("/v1/charges", limit=100)
        assert Counter(charge["external_id"] for charge in charges) == Counter(self.tried)
        paid = {charge["charge_id"] for charge in charges if charge["status"] == "paid"}
        assert self.paid <= paid
        events = await client.events()
        assert [event["sequence"] for event in events] == list(range(1, len(paid) + 1))
        assert Counter(event["charge_id"] for event in events) == Counter(paid)
        assert Counter(payment["charge_id"] for payment in await client.all("/v1/payments", limit=100)) == Counter(paid)
        entries = await client.ledger()
        assert [entry["sequence"] for entry in entries] == list(range(1, len(paid) + 1))
        assert [entry["balance_after"] for entry in entries] == [f"{10 * (at + 1)}.00" for at in range(len(paid))]
        assert await client.balance() == f"{10 * len(paid)}.00"
