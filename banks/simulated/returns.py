"""The simulated bank's outgoing money: devolucoes of received PIX, and PIX sent to keys.

Whether one is settled or failed follows from the clock and from switchable rules (`ReturnRules`); no task runs in the
background.
"""

import re
import secrets
import string
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

import sql
from banks.lists import BankPage, numbered_page
from banks.protocol import DESCRIPTION_CHARACTERS_MAX, Done, NotFound, Rejected
from banks.transfers import PIX_UNKNOWN, Return, Sent, SentTransfer, Transfer
from runtime.postgres import Pool, session, transaction

WITHIN: Final = timedelta(days=90)
"""The limit for a devolucao after the settlement of the PIX, as in API Pix."""
ASKED_FOR: Final = "ORIGINAL"
TAKEN_BACK: Final = "MED_FRAUDE"
"""The natureza of a devolucao requested by the receiver, and of one begun by the bank."""
ISPB: Final = "99999994"
"""The bank's number in the payment system, part of its endToEndIds and rtrIds. No real bank has it."""

_PER_PAGE: Final = 100
_ALPHABET = string.ascii_letters + string.digits
_ID = re.compile(r"[a-zA-Z0-9]{1,35}")
_WHY_NOT: Final = "A conta do recebedor está encerrada."

Status = Literal["EM_PROCESSAMENTO", "DONE", "NAO_REALIZADO"]
_TOLD: Final[dict[Status, Literal["processing", "done", "not_done"]]] = {
    "EM_PROCESSAMENTO": "processing",
    "DONE": "done",
    "NAO_REALIZADO": "not_done",
}


class ReturnRules(Struct, frozen=True):
    """How long a devolucao or transfer takes, and whether it then fails."""

    settle_after_s: float
    fails: bool


class BookedReturn(Struct, frozen=True):
    end_to_end_id: str
    id: str
    natureza: str
    amount_cents: int
    description: str | None
    return_id: str
    asked_at: datetime
    settles_at: datetime
    fails: bool


class BookedTransfer(Struct, frozen=True):
    id: str
    amount_cents: int
    pix_key: str
    document: str
    description: str | None
    end_to_end_id: str
    asked_at: datetime
    settles_at: datetime
    fails: bool


class _Received(Struct, frozen=True):
    amount_cents: int
    paid_at: datetime


hold_pix = sql.maybe("simulated_return.hold_pix", _Received)
hold_boleto_pix = sql.maybe("simulated_return.hold_boleto_pix", _Received)
sum_gone = sql.one("simulated_return.gone", int)
add_return = sql.run("simulated_return.add")
find_returns = sql.many("simulated_return.of_pix", BookedReturn)
find_return = sql.maybe("simulated_return.find", BookedReturn)
add_transfer = sql.run("simulated_return.add_transfer")
find_transfer = sql.maybe("simulated_return.find_transfer", BookedTransfer)
count_transfers = sql.one("simulated_return.count_transfers", int)
page_transfers = sql.many("simulated_return.page_transfers", BookedTransfer)
find_rules = sql.one("simulated_return.rules", ReturnRules)
set_rules = sql.run("simulated_return.set_rules")


class SimulatedReturns:
    def __init__(self, pool: Pool, *, world: str, now: Callable[[], datetime]) -> None:
        self._pool = pool
        self._world = world
        self.now = now

    async def return_pix(self, asked: Return) -> Done[Sent] | Rejected:
        booked = await self.put_return(asked)
        return booked if isinstance(booked, Rejected) else Done(self.sent(booked, booked.return_id))

    async def find_return(self, end_to_end_id: str, id: str) -> Sent | NotFound:
        booked = await self.booked_return(end_to_end_id, id)
        return NotFound() if booked is None else self.sent(booked, booked.return_id)

    async def send_pix(self, asked: Transfer) -> Done[Sent] | Rejected:
        booked = await self.put_transfer(asked)
        return booked if isinstance(booked, Rejected) else Done(self.sent(booked, booked.end_to_end_id))

    async def find_transfer(self, id: str) -> Sent | NotFound:
        booked = await self.booked_transfer(id)
        return NotFound() if booked is None else self.sent(booked, booked.end_to_end_id)

    async def take_back(self, end_to_end_id: str, amount_cents: int) -> BookedReturn | Rejected:
        """Return a PIX on the bank's own initiative (MED), as after a fraud that the payer reported."""
        asked = Return(id=secrets.token_hex(16), end_to_end_id=end_to_end_id, amount_cents=amount_cents)
        return await self.put_return(asked, natureza=TAKEN_BACK)

    async def put_return(
        self, asked: Return, *, once: bool = False, natureza: str = ASKED_FOR
    ) -> BookedReturn | Rejected:
        """Book a devolucao. A repetition with the same id changes nothing; with `once` it is refused."""
        if _ID.fullmatch(asked.id) is None:
            return Rejected("PixDevolucaoInvalida", "O id não respeita o schema.")
        now = self.now()
        key = {"world": self._world, "end_to_end_id": asked.end_to_end_id}
        async with transaction(self._pool) as conn:
            # The row lock serializes the devolucoes of one PIX, so that the sum below counts earlier ones.
            received = await hold_pix(conn, **key) or await hold_boleto_pix(conn, **key)
            if received is None:
                return Rejected(PIX_UNKNOWN, "O Pix não foi encontrado.")
            before = await find_return(conn, **key, id=asked.id)
            if before is not None:
                same = before.amount_cents == asked.amount_cents and not once
                return before if same else Rejected("PixDevolucaoInvalida", "O id já foi utilizado.")
            if received.paid_at + WITHIN < now:
                return Rejected("PixDevolucaoInvalida", "O prazo de 90 dias passou.")
            gone_cents = await sum_gone(conn, **key, now=now)
            if gone_cents + asked.amount_cents > received.amount_cents:
                return Rejected("PixDevolucaoInvalida", "A soma das devoluções supera o valor do Pix.")
            rules = await find_rules(conn, world=self._world)
            await add_return(
                conn,
                **key,
                id=asked.id,
                natureza=natureza,
                amount_cents=asked.amount_cents,
                description=(asked.description or "")[:DESCRIPTION_CHARACTERS_MAX] or None,
                return_id=_reference("D", now),
                now=now,
                settles_at=now + timedelta(seconds=rules.settle_after_s),
                fails=rules.fails,
            )
            booked = await find_return(conn, **key, id=asked.id)
        assert booked is not None, "it was just added"
        return booked

    async def booked_return(self, end_to_end_id: str, id: str) -> BookedReturn | None:
        async with session(self._pool) as conn:
            return await find_return(conn, world=self._world, end_to_end_id=end_to_end_id, id=id)

    async def returns_of(self, end_to_end_ids: Sequence[str]) -> list[BookedReturn]:
        async with session(self._pool) as conn:
            return await find_returns(conn, world=self._world, end_to_end_ids=end_to_end_ids)

    async def put_transfer(self, asked: Transfer) -> BookedTransfer | Rejected:
        """Book a PIX to a key. A repetition with the same id changes nothing."""
        if _ID.fullmatch(asked.id) is None:
            return Rejected("TransferenciaInvalida", "O id não respeita o schema.")
        now = self.now()
        async with transaction(self._pool) as conn:
            rules = await find_rules(conn, world=self._world)
            await add_transfer(
                conn,
                world=self._world,
                id=asked.id,
                amount_cents=asked.amount_cents,
                pix_key=asked.pix_key,
                document=asked.document,
                description=(asked.description or "")[:DESCRIPTION_CHARACTERS_MAX] or None,
                end_to_end_id=_reference("E", now),
                now=now,
                settles_at=now + timedelta(seconds=rules.settle_after_s),
                fails=rules.fails,
            )
            booked = await find_transfer(conn, world=self._world, id=asked.id)
        assert booked is not None, "it is there now, or was before"
        if (booked.amount_cents, booked.pix_key, booked.document) != (
            asked.amount_cents,
            asked.pix_key,
            asked.document,
        ):
            return Rejected("TransferenciaInvalida", "O id já foi utilizado.")
        return booked

    async def booked_transfer(self, id: str) -> BookedTransfer | None:
        async with session(self._pool) as conn:
            return await find_transfer(conn, world=self._world, id=id)

    async def transfer_page(
        self, since: datetime, until: datetime, *, page: int, per_page: int
    ) -> tuple[list[BookedTransfer], int]:
        """Return one page (from 0) of the transfers requested in the interval, and their total number."""
        of = {"world": self._world, "since": since, "until": until}
        async with session(self._pool) as conn:
            total = await count_transfers(conn, **of)
            return await page_transfers(conn, **of, limit=per_page, skip=page * per_page), total

    async def sent_page(
        self, since: datetime, until: datetime, after: str | None = None
    ) -> Done[BankPage[SentTransfer]]:
        page = int(after or 0)
        rows, total = await self.transfer_page(since, until, page=page, per_page=_PER_PAGE)
        items = [
            SentTransfer(
                id=each.id,
                status=_TOLD[self.status(each)],
                amount_cents=each.amount_cents,
                asked_at=each.asked_at,
                reference=each.end_to_end_id,
                pix_key=each.pix_key,
            )
            for each in rows
        ]
        return Done(numbered_page(items, [], page=page, pages=-(-total // _PER_PAGE)))

    async def rules(self) -> ReturnRules:
        async with session(self._pool) as conn:
            return await find_rules(conn, world=self._world)

    async def set_rules(self, rules: ReturnRules) -> None:
        """Set the rules for devolucoes and transfers requested from now on."""
        async with session(self._pool) as conn:
            await set_rules(conn, world=self._world, settle_after_s=rules.settle_after_s, fails=rules.fails)

    def status(self, booked: BookedReturn | BookedTransfer) -> Status:
        if self.now() < booked.settles_at:
            return "EM_PROCESSAMENTO"
        return "NAO_REALIZADO" if booked.fails else "DONE"

    def why_not(self, booked: BookedReturn | BookedTransfer) -> str | None:
        return _WHY_NOT if self.status(booked) == "NAO_REALIZADO" else None

    def sent(self, booked: BookedReturn | BookedTransfer, reference: str) -> Sent:
        return Sent(
            status=_TOLD[self.status(booked)],
            amount_cents=booked.amount_cents,
            reference=reference,
            detail=self.why_not(booked),
        )


def _reference(kind: str, at: datetime) -> str:
    """Return a new endToEndId (E) or rtrId (D), 32 characters."""
    return f"{kind}{ISPB}{at:%Y%m%d%H%M}" + "".join(secrets.choice(_ALPHABET) for _ in range(11))
