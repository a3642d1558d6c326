"""A random walk through every command in every state: the service must answer as the model does.

There are two merchants and a partner whose code some of their boletos have, in both modes. After each step the walk
compares the answer and the charge with the model; every few steps all lists of the API; at the end of a walk also every
webhook, and it runs the queries of tests/walk/books.py.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Final, NamedTuple
from uuid import uuid4
from zoneinfo import ZoneInfo

import holidays
from hypothesis import strategies as st
from hypothesis.errors import StopTest
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from banks.simulated.returns import ReturnRules
from readmodels.verify import verify
from tests.support.boleto_merchant import PAGADOR
from tests.support.in_process import Reply, envelope
from tests.walk.books import UNENDED, faults, webhook_faults
from tests.walk.model import Answer, Charge, Fees, Partner, Refund, Wallet, counted
from tests.walk.service import RETURNS_SUCCEED, Service, WalkMerchant, running_service

SAO_PAULO: Final = ZoneInfo("America/Sao_Paulo")
CHECK_ALL_EVERY: Final = 20
"""Steps between two comparisons of all lists and books; the last one is at the end of the walk."""
WALK_MAX: Final = timedelta(days=330)
"""A walk's clock advances no further than this: the feed keeps its events for longer."""
LATER_S: Final = 600.0
"""How long the bank takes for a refund that it does not make at once."""

SHOPS: Final = ("first", "second")
PARTNER: Final = "partner"
ACCOUNTS: Final = (*SHOPS, PARTNER)
MERCHANT_WITH_FEES: Final = "first"
FEES: Final = Fees(pix_bps=99, pix_cents=1, pix_min=3, boleto=199, withdrawal=150)
"""The fees of MERCHANT_WITH_FEES; the other merchants have none."""
SHARES: Final = (0, 1, 33, 250, 3_333, 3_333, 10_000)
"""Basis points."""
KINDS: Final = ("boleto_pix", "pix", "boleto", "boleto_hibrido", "dual", "pix")
REFERENCES: Final = (None, None, "pedido-1", "pedido-2")
PIX_LIVES: Final = (None, 60, 3600, 30 * 86400)
DESTINATION: Final = {"pix_key": "52998224725", "document": "52998224725"}
JUMPS: Final = (
    *(timedelta(seconds=7),) * 3,
    *(timedelta(seconds=61),) * 3,
    *(timedelta(seconds=LATER_S + 1),) * 4,
    *(timedelta(hours=25),) * 3,
    *(timedelta(days=4),) * 2,
    timedelta(days=12),
    timedelta(days=91),
)
ADVANCES: Final = (timedelta(seconds=61), timedelta(seconds=LATER_S + 1), timedelta(hours=25), timedelta(days=12))
GRACE: Final = timedelta(seconds=5)
"""How long a withdrawal waits before it is sent to the bank (docs/withdrawals.md)."""
AMOUNTS: Final = ("exact", "exact", "less", "more")
PAYER: Final = {
    "name": PAGADOR["nome"],
    "document": PAGADOR["documento"],
    "person_type": PAGADOR["tipoPessoa"],
    "address": {
        "zip_code": PAGADOR["cep"],
        "street": PAGADOR["logradouro"],
        "city": PAGADOR["cidade"],
        "state": PAGADOR["uf"],
    },
}
_BANK_DAYS = holidays.financial_holidays("BVMF")

_KNOWN_TO_BANK: Final = """
SELECT EXISTS (SELECT FROM refund WHERE refund_id = $1::uuid AND status <> 'pending')
    OR (NOT $3::boolean AND EXISTS (SELECT FROM simulated_devolucao WHERE id = $2
                                    UNION ALL SELECT FROM simulated_transfer WHERE id = $2))
"""

merchants = st.sampled_from(SHOPS)
accounts = st.sampled_from(ACCOUNTS)
modes = st.booleans()
cents = st.integers(1, 2_000_00)
picks = st.integers(0, 1000)
rarely = st.integers(0, 6).map(lambda drawn: drawn == 6)
sometimes = st.integers(0, 2).map(lambda drawn: drawn == 2)


def reais(amount: int) -> str:
    return f"{amount // 100}.{amount % 100:02}"


def in_cents(shown: str) -> int:
    whole, _, part = shown.removeprefix("-").partition(".")
    assert len(part) == 2, shown
    return (int(whole) * 100 + int(part)) * (-1 if shown.startswith("-") else 1)


def last_day(due: date) -> date:
    """The last day to pay: the due date, or the next business day when banks are closed on it."""
    while due.weekday() >= 5 or due in _BANK_DAYS:
        due += timedelta(days=1)
    return due


def boleto_ends(due: date) -> datetime:
    return datetime.combine(last_day(due) + timedelta(days=1), datetime.min.time(), SAO_PAULO)


class Step(NamedTuple):
    do: Callable[..., None]
    given: dict[str, st.SearchStrategy[Any]]


STEPS: Final[dict[str, Step]] = {}
WEIGHTED_STEPS: Final[list[str]] = ["look_up"]
"""The name of each step, as often as its weight. The first is the step of hypothesis' simplest walk, which always runs:
the cheapest one."""

charges: Final[st.SearchStrategy[Any]] = st.nothing()
"""Placeholder for a parameter that is one of the existing charges, drawn when the step is taken."""


def step(weight: int, **given: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a step of the walk, with its parameters and its weight. As rules of hypothesis the steps would be chosen
    in long runs of the same few; a walk must meet every command in every state."""

    def register(do: Callable[..., None]) -> Callable[..., None]:
        STEPS[do.__name__] = Step(do, given)
        WEIGHTED_STEPS.extend([do.__name__] * weight)
        return do

    return register


class UsedKey:
    """An idempotency key, its request, and the id of what it created."""

    def __init__(self, merchant: str, test: bool, path: str, body: Any, key: str, made: str) -> None:
        self.merchant, self.test, self.path, self.body, self.key, self.made = merchant, test, path, body, key, made


class Stage:
    """The service on which walks run one after the other. A failed walk may leave work under way, so the next walk gets
    a new service: hypothesis can then shrink the failure without being misled."""

    def __init__(self, runner: asyncio.Runner, servers: Any) -> None:
        self._runner = runner
        self._servers = servers
        self._opened: AsyncExitStack | None = None
        self._service: Service | None = None

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def service(self) -> Service:
        if self._service is None:
            self._service = self.run(self._open())
        return self._service

    def drop(self) -> None:
        if self._opened is not None:
            self.run(self._opened.aclose())
        self._opened = self._service = None

    async def _open(self) -> Service:
        self._opened = AsyncExitStack()
        return await self._opened.enter_async_context(running_service(self._servers))


class Walk(RuleBasedStateMachine):
    stage: ClassVar[Stage]
    steps: ClassVar[Counter[str]] = Counter()
    """How often each step got each answer, over all walks."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Charge] = []
        self.merchants: dict[str, WalkMerchant] = {}
        self.wallets = {
            (merchant, test): Wallet(FEES if merchant == MERCHANT_WITH_FEES else Fees())
            for merchant in ACCOUNTS
            for test in (True, False)
        }
        self.used: list[UsedKey] = []
        self.suspended = False
        self.ahead = dict.fromkeys(SHOPS, timedelta())
        self.done = 0
        self.service = self.stage.service()
        self.run(self.service.restart())
        self.began = self.now
        for name in ACCOUNTS:
            self.merchants[name] = self.run(self.service.open_merchant(name))
        self.run(self.service.set_merchant_fees(self.merchants[MERCHANT_WITH_FEES], FEES))
        code = self.run(self.service.create_partner(self.merchants[PARTNER]))
        self.partner = Partner(code, {test: self.wallets[PARTNER, test] for test in (True, False)})
        self._agree(3_333, active=True)

    def run(self, work: Any) -> Any:
        return self.stage.run(work)

    @property
    def now(self) -> datetime:
        return self.service.clock.now()

    def at(self, charge: Charge) -> datetime:
        """The time of the clock that applies to this charge: a merchant's sandbox may be ahead."""
        return self.clock(charge.merchant, charge.test)

    def clock(self, merchant: str, test: bool) -> datetime:
        return self.now + self.ahead[merchant] if test else self.now

    def today(self, merchant: str, test: bool) -> date:
        return self.clock(merchant, test).astimezone(SAO_PAULO).date()

    def day(self, merchant: str, test: bool, days: int) -> str:
        return (self.today(merchant, test) + timedelta(days=days)).isoformat()

    @rule(data=st.data(), name=st.deferred(lambda: st.sampled_from(WEIGHTED_STEPS)))
    def takes(self, data: st.DataObject, name: str) -> None:
        do, strategies = STEPS[name]
        given = {}
        for each, strategy in strategies.items():
            if strategy is charges:
                if not self.all:
                    return
                given[each] = self.all[data.draw(st.integers(0, len(self.all) - 1), label="charge")]
            else:
                given[each] = data.draw(strategy, label=each)
        do(self, **given)

    # Create

    @initialize(kind=st.sampled_from(KINDS), test=modes, amount=cents)
    def create_first_charge(self, kind: str, test: bool, amount: int) -> None:
        self._create("first", test, kind, amount, "pedido-1", None, 10, False, True)

    @step(
        5,
        merchant=merchants,
        test=modes,
        kind=st.sampled_from(KINDS),
        amount=cents,
        reference=st.sampled_from(REFERENCES),
        life=st.sampled_from(PIX_LIVES),
        days=st.sampled_from((3, 10, 40, 0, 1)),
        refused=rarely,
        brought=st.booleans(),
    )
    def create(
        self, merchant: str, test: bool, kind: str, amount: int, reference: str | None, life: int | None, days: int,
        refused: bool, brought: bool,
    ) -> None:  # fmt: skip
        self._create(merchant, test, kind, amount, reference, life, days, refused, brought)

    @step(
        4,
        merchant=merchants,
        kind=st.sampled_from(KINDS),
        amount=cents,
        life=st.sampled_from(PIX_LIVES),
        brought=st.booleans(),
    )
    def create_in_production(self, merchant: str, kind: str, amount: int, life: int | None, brought: bool) -> None:
        self._create(merchant, False, kind, amount, None, life, 10, False, brought)

    def _create(
        self, merchant: str, test: bool, kind: str, amount: int, reference: str | None, life: int | None, days: int,
        refused: bool, brought: bool,
    ) -> None:  # fmt: skip
        path, body, due = self._creation_request(merchant, test, kind, amount, reference, life, days)
        brought = brought and kind != "pix"  # a PIX charge has no integrador_code
        if brought:
            body["integrador_code"] = self.partner.code
        key = str(uuid4())
        kind = "boleto_pix" if kind == "dual" else kind
        suspended = self.suspended and not test and kind in ("pix", "boleto_pix")
        wanted: Answer = (201, "")
        if suspended:
            wanted = (403, "PIX_AVULSO_SUSPENDED")
        elif due is not None and due <= self.today(merchant, test):
            wanted = (400, "INVALID_DUE_DATE")
        elif brought and not self.partner.active:
            wanted = (400, "INTEGRADOR_CODE_INVALID")
        elif refused and kind != "pix":
            wanted = (502, "BANK_UNAVAILABLE")
        reply = self._ask_with_bank(refused, merchant, test, "POST", path, body, key)
        self._assert_answer(reply, wanted, f"create {kind}")
        if wanted == (502, "BANK_UNAVAILABLE"):
            # The refused request left nothing, and its key is unused: it succeeds once the bank accepts it.
            self.wait_until_idle()
            reply = self._ask(merchant, test, "POST", path, body, key)
            self._assert_answer(reply, (201, ""), f"create {kind} again")
            refused = False
        elif wanted[0] != 201:
            return
        charge = self._add_charge(merchant, test, kind, amount, reference, life, due, brought, reply.json())
        if refused:
            charge.fail()
        self.wait_until_idle()
        self._assert_charge_and_payments(charge)
        self.used.append(UsedKey(merchant, test, path, body, key, charge.charge_id))

    def _creation_request(
        self, merchant: str, test: bool, kind: str, amount: int, reference: str | None, life: int | None, days: int
    ) -> tuple[str, dict[str, Any], date | None]:
        more: dict[str, Any] = {} if reference is None else {"external_id": reference}
        if life is not None and kind in ("pix", "dual"):
            more["expires_in"] = life
        if kind == "pix":
            account_id = str(self.merchants[merchant].account_id)
            return "/v1/charges/pix", {"account_id": account_id, "amount": reais(amount), **more}, None
        due = self.today(merchant, test) + timedelta(days=days)
        if kind == "dual":
            body = {"amount": reais(amount), "due_date": due.isoformat(), "payer": PAYER, **more}
            return "/v1/charges/dual", body, due
        body = {
            "tipo": kind,
            "valorCents": reais(amount),
            "dataVencimento": due.isoformat(),
            "pagador": PAGADOR,
            **more,
        }
        return "/v1/charges/boleto", body, due

    def _add_charge(
        self, merchant: str, test: bool, kind: str, amount: int, reference: str | None, life: int | None,
        due: date | None, brought: bool, shown: dict[str, Any],
    ) -> Charge:  # fmt: skip
        created_at = instant(shown["created_at"])
        assert abs(created_at - self.clock(merchant, test)) < timedelta(seconds=30)
        # Only POST /v1/charges/dual gives the PIX leg its own expiry.
        own = None if life is None else created_at + timedelta(seconds=life)
        ends = boleto_ends(due) if due is not None else own or created_at + timedelta(days=1)
        if kind == "boleto_pix":
            own = own if instant(shown["expires_at"]) != ends else None
        charge = Charge(
            merchant=merchant,
            test=test,
            wallet=self.wallets[merchant, test],
            charge_id=shown["charge_id"],
            kind=kind,
            cents=amount,
            external_id=reference,
            expires_at=ends,
            due=due,
            pix_until=own if kind == "boleto_pix" else None,
            number=shown["boleto"]["nosso_numero"] if shown["boleto"] else "",
            partner=self.partner if brought else None,
            issued_at=created_at,
        )
        assert charge.charge_id not in {each.charge_id for each in self.all}
        self.all.append(charge)
        self._assert_same(charge, shown)
        return charge

    # Read, cancel, re-date

    @step(2, charge=charges, other=merchants, test=modes)
    def look_up(self, charge: Charge, other: str, test: bool) -> None:
        if (other, test) == (charge.merchant, charge.test):
            self._assert_charge_and_payments(charge)
            return
        # A charge of another merchant or mode is not found by any request.
        for method, path, body in (
            ("GET", f"/v1/charges/{charge.charge_id}", None),
            ("POST", f"/v1/charges/{charge.charge_id}/cancel", None),
            ("POST", f"/v1/charges/{charge.charge_id}/refunds", {}),
            ("PATCH", "/v1/charges/due-date", {"charge_id": charge.charge_id, "due_date": self.day(other, test, 3)}),
        ):
            reply = self._ask(other, test, method, path, body, str(uuid4()) if path.endswith("refunds") else None)
            self._assert_answer(reply, (404, "CHARGE_NOT_FOUND"), "foreign")

    @step(
        4,
        charge=charges,
        by_body=st.booleans(),
        reason=st.sampled_from((None, "cancelled", "paid_externally")),
        refused=rarely,
        astray=sometimes,
    )
    def cancel(self, charge: Charge, by_body: bool, reason: str | None, refused: bool, astray: bool) -> None:
        charge = self._choose(charge, lambda each: astray or each.status == "pending")
        charge.lapse(self.at(charge))
        refused = refused and bool(charge.boleto)
        path, body = f"/v1/charges/{charge.charge_id}/cancel", None
        if by_body:
            path, body = "/v1/charges/cancel", {"charge_id": charge.charge_id}
            if reason is not None:
                body["reason"] = reason
        reply = self._ask_with_bank(refused, charge.merchant, charge.test, "POST", path, body)
        wanted = charge.to_cancel(refused=refused)
        self._assert_answer(reply, wanted, "cancel")
        if wanted == (200, ""):
            charge.cancel()
            self._assert_same(charge, reply.json())
        self.wait_until_idle()
        self._assert_charge_and_payments(charge)

    @step(
        2,
        merchant=merchants,
        test=modes,
        reference=st.sampled_from(("pedido-1", "pedido-2", "nobody's")),
        astray=rarely,
    )
    def cancel_by_reference(self, merchant: str, test: bool, reference: str, astray: bool) -> None:
        if not astray and reference != "nobody's":
            named = [charge for charge in self.all if charge.status == "pending" and charge.external_id is not None]
            if named:
                merchant, test, reference = named[-1].merchant, named[-1].test, str(named[-1].external_id)
        found = self._pending(merchant, test, reference)
        reply = self._ask(merchant, test, "POST", "/v1/charges/cancel", {"external_id": reference})
        self._assert_answer(reply, _of_reference(found), "cancel by reference")
        if len(found) == 1:
            found[0].cancel()
            self._assert_same(found[0], reply.json())
        self.wait_until_idle()

    @step(
        4,
        charge=charges,
        days=st.sampled_from((-1, 0, 0, 2, 20, None)),
        by_reference=st.booleans(),
        refused=rarely,
        astray=sometimes,
    )
    def redate(self, charge: Charge, days: int | None, by_reference: bool, refused: bool, astray: bool) -> None:
        charge = self._choose(charge, lambda each: astray or (each.status == "pending" and bool(each.boleto)))
        charge.lapse(self.at(charge))
        today = self.today(charge.merchant, charge.test)
        due = charge.due or today if days is None else today + timedelta(days=days)
        body: dict[str, Any] = {"charge_id": charge.charge_id, "due_date": due.isoformat()}
        found = [charge]
        if by_reference and charge.external_id is not None:
            body = {"external_id": charge.external_id, "due_date": due.isoformat()}
            found = [each for each in self._pending(charge.merchant, charge.test, charge.external_id) if each.boleto]
        reply = self._ask_with_bank(refused, charge.merchant, charge.test, "PATCH", "/v1/charges/due-date", body)
        wanted = _of_reference(found)
        if due < today:
            wanted = (400, "INVALID_DUE_DATE")
        elif len(found) == 1:
            wanted = found[0].to_redate(due, refused=refused)
        self._assert_answer(reply, wanted, "redate")
        if wanted == (200, ""):
            (moved,) = found
            if moved.due != due:
                moved.redate(due, boleto_ends(due))
            self._assert_same(moved, reply.json())
        self.wait_until_idle()
        self._assert_charge_and_payments(charge)

    # Payments

    @step(3, charge=charges, astray=rarely)
    def simulate_payment(self, charge: Charge, astray: bool) -> None:
        charge = self._choose(charge, lambda each: each.test != astray and each.status == "pending")
        charge.lapse(self.at(charge))
        path = f"/v1/charges/{charge.charge_id}/simulate-payment"
        reply = self._ask(charge.merchant, charge.test, "POST", path)
        wanted = charge.to_simulated_payment() if charge.test else (403, "SANDBOX_ONLY")
        self._assert_answer(reply, wanted, "simulate")
        if wanted == (200, ""):
            self._sandbox_paid(charge, charge.cents, 1)
            self._assert_same(charge, reply.json())
        self.wait_until_idle()
        self._assert_charge_and_payments(charge)

    @step(4, charge=charges, amount=st.sampled_from(AMOUNTS), times=st.sampled_from((1, 1, 1, 2, 3)), astray=rarely)
    def sandbox_pay(self, charge: Charge, amount: str, times: int, astray: bool) -> None:
        charge = self._choose(charge, lambda each: each.test != astray)
        charge.lapse(self.at(charge))
        path = f"/v1/sandbox/charges/{charge.charge_id}/pay"
        paid = _amount(charge, amount)
        body: dict[str, Any] = {"times": times}
        if amount == "exact":
            paid = charge.cents
        else:
            body["amount"] = reais(paid)
        reply = self._ask(charge.merchant, charge.test, "POST", path, body)
        self._assert_answer(reply, (200, "") if charge.test else (403, "SANDBOX_ONLY"), "sandbox pay")
        if charge.test:
            self._sandbox_paid(charge, paid, times)
            self._assert_same(charge, reply.json())
        self.wait_until_idle()
        self._assert_charge_and_payments(charge)

    @step(3, charge=charges, what=st.sampled_from(("expire", "fail")), astray=rarely)
    def sandbox_end(self, charge: Charge, what: str, astray: bool) -> None:
        charge = self._choose(charge, lambda each: each.test != astray and each.status == "pending")
        charge.lapse(self.at(charge))
        reply = self._ask(charge.merchant, charge.test, "POST", f"/v1/sandbox/charges/{charge.charge_id}/{what}")
        wanted = (200, "") if charge.status == "pending" else (409, "CHARGE_NOT_PENDING")
        self._assert_answer(reply, wanted if charge.test else (403, "SANDBOX_ONLY"), what)
        if charge.test and wanted == (200, ""):
            if what == "fail":
                charge.fail()
            else:
                charge.expires_at = self.at(charge)
                charge.lapse(self.at(charge))
            self._assert_same(charge, reply.json())
        self.wait_until_idle()
        self._assert_charge_and_payments(charge)

    @step(
        9,
        charge=charges,
        amount=st.sampled_from(AMOUNTS),
        twice=rarely,
        force=st.booleans(),
        leg=st.sampled_from(("boleto", "cob", "side")),
        astray=sometimes,
    )
    def pay_at_bank(self, charge: Charge, amount: str, twice: bool, force: bool, leg: str, astray: bool) -> None:
        """A payer pays at the production bank. `side`: by the PIX side of a hybrid boleto."""
        if not astray:
            charge = self._choose(charge, lambda each: not each.test and each.status == "pending")
        charge = self._choose(charge, lambda each: not each.test)
        if charge.test:
            return
        charge.lapse(self.at(charge))
        if leg != "boleto":
            leg = "cob" if charge.cob else "side" if charge.kind == "boleto_hibrido" else "boleto"
        elif not charge.boleto:
            leg = "cob"
        if leg == "cob" and charge.status == "failed" and charge.kind == "pix":
            return  # the bank never registered it
        paid = _amount(charge, amount)
        asked: dict[str, Any] = {"amount": reais(paid), "force": force, "times": 2 if twice else 1}
        if leg == "cob":
            asked["charge_id"] = charge.charge_id
        else:
            asked |= {"number": charge.number, "rail": "pix" if leg == "side" else "boleto"}
        taken = charge.payable_at_bank(
            leg if leg == "cob" else "boleto",
            force=force,
            now=self.now,
            today=self.today(charge.merchant, charge.test),
            last_day=None if charge.due is None else last_day(charge.due),
        )
        status = self.run(self.service.pay_at_bank(**asked))
        Walk.steps[f"bank pays {leg} {status}"] += 1
        assert status == (200 if taken else 409), (status, leg, charge)
        if taken:
            arrived = paid * asked["times"]
            before = sum(payment.cents for payment in charge.payments)
            self.run(
                self.service.wait_until(
                    lambda: self._credited(charge, before + arrived), "the payment was not credited"
                )
            )
            parts = [paid] * asked["times"]
            if leg == "boleto" and twice:
                # The bank states a boleto's total: two payments may have been read, and booked, as one.
                parts = self.run(self._new_payments_cents(charge))
            for part in parts:
                charge.receive(
                    part,
                    by_pix=leg != "boleto",
                    paid_at=self.at(charge),
                    leg="cob" if leg == "cob" else "boleto",
                )
        self.wait_until_idle()
        self._assert_charge_and_payments(charge)

    # Refunds and withdrawals

    @step(
        9,
        charge=charges,
        which=picks,
        how=st.sampled_from(("rest", "rest", "part", "part", "too much")),
        destination=st.booleans(),
        bank=st.sampled_from(("at once", "at once", "later", "fails", "fails later", "refuses")),
    )
    def refund(self, charge: Charge, which: int, how: str, destination: bool, bank: str) -> None:
        if which % 5:
            charge = self._choose(charge, lambda each: any(payment.left for payment in each.payments))
        charge.lapse(self.at(charge))
        payment = charge.settling
        body: dict[str, Any] = {"destination": DESTINATION} if destination else {}
        if which % 3 and charge.payments:
            payment = charge.payments[which % len(charge.payments)]
            body["payment_id"] = payment.payment_id
        amount = None
        if payment is not None and how != "rest":
            amount = max(1, payment.left // 2) if how == "part" else payment.left + 1
            body["amount"] = reais(amount)
        later = bank in ("later", "fails later")
        rules = ReturnRules(LATER_S if later else 0.0, bank.startswith("fails"))
        self._end_refunds_and_withdrawals()
        self.run(self.service.set_bank_behaviour(returns=rules))
        path, key = f"/v1/charges/{charge.charge_id}/refunds", str(uuid4())
        wanted, back = charge.to_refund(payment, amount, destination=destination, now=self.at(charge))
        asked_at = self.at(charge)
        reply = self._ask_with_bank(
            bank == "refuses", charge.merchant, charge.test, "POST", path, body, key, rules=rules
        )
        self._assert_answer(reply, wanted, "refund")
        if wanted[0] == 201:
            assert payment is not None
            shown = reply.json()
            refund = charge.refund(
                payment,
                back,
                arrives=bank in ("at once", "later"),
                ends_at=asked_at + timedelta(seconds=LATER_S if later else 0.0),
            )
            refund.refund_id = shown["refund_id"]
            assert (shown["status"], in_cents(shown["amount"])) == ("pending", back)
            assert in_cents(shown["refundable_remaining"]) == payment.left
            self.used.append(UsedKey(charge.merchant, charge.test, path, body, key, refund.refund_id))
            # The bank applies the rules of the moment it accepts the order, which may be the second attempt.
            self.run(
                self.service.wait_until(
                    lambda: self._is_known_to_bank(refund, over=not later), "the refund was not sent to the bank"
                )
            )
            self.wait_until_idle()
            self._end_refunds_and_withdrawals()
            assert later or refund.status != "pending", "the refund is pending although the bank has ended it"
        self.run(self.service.set_bank_behaviour())
        self._assert_charge_and_payments(charge)

    @step(4, which=st.sampled_from((5, 10, 15)), bank=st.sampled_from(("at once", "at once", "later", "fails")))
    def refund_in_parts(self, which: int, bank: str) -> None:
        """Refund a partner's charge in parts: shares rounded for each part would not add up to his share."""
        brought = [each for each in self.all if any(paid.left > 1 and paid.share_bps for paid in each.payments)]
        for how in ("part", "part", "rest") if brought else ():
            self.refund(brought[-1], which, how, True, bank if how == "part" else "at once")

    @step(
        4,
        merchant=accounts,
        astray=rarely,
        how=st.sampled_from(("all", "part", "part", "too much", "too little")),
        bank=st.sampled_from(("at once", "fails", "not yet")),
    )
    def withdraw(self, merchant: str, astray: bool, how: str, bank: str) -> None:
        if not astray and self.wallets[merchant, False].balance == 0:
            merchant = next((each for each in ACCOUNTS if self.wallets[each, False].balance), merchant)
        self._end_refunds_and_withdrawals()
        wallet, test = self.wallets[merchant, False], astray
        amount = {
            "all": max(1, wallet.balance - wallet.fees.withdrawal),
            "part": max(1, wallet.balance // 3),
            "too much": max(0, wallet.balance) + 100,
            "too little": 99,
        }[how]
        body, key = {"amount": reais(amount)}, str(uuid4())
        wanted = (403, "SANDBOX_ONLY") if test else wallet.to_withdraw(amount)
        reply = self._ask(merchant, test, "POST", "/v1/withdrawals", body, key)
        self._assert_answer(reply, wanted, "withdraw")
        if wanted != (201, ""):
            return
        shown = reply.json()
        assert (shown["status"], in_cents(shown["amount"]), shown["test"]) == ("pending", amount, False)
        sends_at = instant(shown["created_at"]) + GRACE
        made = wallet.withdraw(shown["withdrawal_id"], amount, sends_at=sends_at)
        self.used.append(UsedKey(merchant, False, "/v1/withdrawals", body, key, made.withdrawal_id))
        if bank != "not yet":
            self.run(self.service.set_bank_behaviour(returns=ReturnRules(0.0, bank == "fails")))
            self.run(self.service.advance(GRACE + timedelta(seconds=1)))
            self.run(
                self.service.wait_until(lambda: self._has_ended(made.withdrawal_id), "the withdrawal was not sent")
            )
            self.run(self.service.set_bank_behaviour())
            self._end_refunds_and_withdrawals()
            assert made.status in ("succeeded", "failed")
            assert bank == "at once" or made.status == "failed"
        self.wait_until_idle()

    @step(2, which=picks)
    def cancel_withdrawal(self, which: int) -> None:
        made = [(merchant, each) for merchant in ACCOUNTS for each in self.wallets[merchant, False].withdrawals]
        if not made:
            return
        made.sort(key=lambda each: each[1].status != "pending")
        merchant, withdrawal = made[0] if which % 3 else made[which % len(made)]
        reply = self._ask(merchant, False, "POST", f"/v1/withdrawals/{withdrawal.withdrawal_id}/cancel")
        near = abs(self.now - withdrawal.sends_at) < timedelta(seconds=1)
        pending = withdrawal.status == "pending" and self.now < withdrawal.sends_at
        if withdrawal.status == "pending" and near:
            pending = reply.status == 200  # at the moment of sending either may come first
        self._assert_answer(reply, (200, "") if pending else (409, "WITHDRAWAL_NOT_CANCELLABLE"), "cancel withdrawal")
        if pending:
            withdrawal.become("cancelled")
            assert reply.json()["status"] == "cancelled"
        self.wait_until_idle()

    # Idempotency keys

    @step(6, which=picks, change=st.sampled_from(("same", "same", "body", "body", "path", "mode")))
    def again(self, which: int, change: str) -> None:
        if not self.used:
            return
        if change == "body":
            self._repeat_with_another_body(which)
            return
        used = self.used[which % len(self.used)]
        path, body, test = used.path, used.body, used.test
        if change == "path":
            path = "/v1/charges/pix" if path != "/v1/charges/pix" else "/v1/charges/dual"
            account_id = str(self.merchants[used.merchant].account_id)
            body = (
                {"account_id": account_id, "amount": "1.00"}
                if path == "/v1/charges/pix"
                else {"amount": "1.00", "due_date": self.day(used.merchant, test, 5), "payer": PAYER}
            )
        elif change == "mode":
            # Each mode has its own keys, and the other mode does not know this one.
            reply = self._ask(used.merchant, not test, "GET", f"/v1/idempotency-keys/{used.key}")
            assert reply.json()["state"] == "unknown"
            return
        reply = self._ask(used.merchant, test, "POST", path, body, used.key)
        if change != "same":
            self._assert_answer(reply, (409, "IDEMPOTENCY_KEY_REUSED"), "again otherwise")
            return
        self._assert_answer(reply, (200, ""), "again")
        assert reply.header("idempotent-replayed") == "true"
        shown = reply.json()
        if path == "/v1/withdrawals":
            assert shown["withdrawal_id"] == used.made
        elif path.endswith("/refunds"):
            refund = next(r for charge in self.all for r in charge.refunds if r.refund_id == used.made)
            assert (shown["refund_id"], shown["status"]) == (used.made, refund.status)
            assert in_cents(shown["refundable_remaining"]) == refund.payment.left
        else:
            charge = next(charge for charge in self.all if charge.charge_id == used.made)
            charge.lapse(self.at(charge))
            self._assert_same(charge, shown)

    def _repeat_with_another_body(self, which: int) -> None:
        """Repeat one key of each kind of creation with another body: each kind has its own replay code."""
        kinds: dict[str, list[UsedKey]] = {}
        for used in self.used:
            kinds.setdefault(used.path.rpartition("/")[2], []).append(used)
        for several in kinds.values():
            used = several[which % len(several)]
            name = "descricao" if "tipo" in used.body else "description"
            reply = self._ask(used.merchant, used.test, "POST", used.path, {**used.body, name: "another"}, used.key)
            self._assert_answer(reply, (409, "IDEMPOTENCY_KEY_REUSED"), "again otherwise")

    # Time, shares and suspensions

    @step(3, share_bps=st.sampled_from(SHARES), active=st.integers(0, 4).map(bool))
    def agree(self, share_bps: int, active: bool) -> None:
        """Agree another share for the partner's new charges, or that new charges may not have his code."""
        self._agree(share_bps, active=active)

    def _agree(self, share_bps: int, *, active: bool) -> None:
        now = self.now
        self.run(self.service.agree(self.partner.code, share_bps=share_bps, active=active, now=now))
        self.partner.active = active
        self.partner.agreed.append((now.replace(microsecond=now.microsecond // 1000 * 1000), share_bps))

    @step(5, by=st.sampled_from(JUMPS))
    def time_passes(self, by: timedelta) -> None:
        if self.now + by > self.began + WALK_MAX:
            return
        self.run(self.service.advance(by))
        self._lapse_all()
        self._end_refunds_and_withdrawals()

    @step(1, merchant=merchants, by=st.sampled_from(ADVANCES))
    def sandbox_clock(self, merchant: str, by: timedelta) -> None:
        """Advance the clock of a merchant's sandbox: his production and other merchants are not affected."""
        if self.ahead[merchant] + by > WALK_MAX:
            return
        seconds = int(by.total_seconds())
        reply = self._ask(merchant, True, "POST", "/v1/sandbox/clock", {"advance": f"PT{seconds}S"})
        self._assert_answer(reply, (200, ""), "sandbox clock")
        self.ahead[merchant] += by
        assert reply.json()["advanced_seconds"] == int(self.ahead[merchant].total_seconds())
        self.wait_until_idle()
        self._lapse_all()
        self._end_refunds_and_withdrawals()

    @step(1, suspend=st.booleans())
    def suspend(self, suspend: bool) -> None:
        self.run(self.service.suspend() if suspend else self.service.resume())
        self.suspended = suspend

    # Lists

    @step(1, merchant=accounts, test=modes)
    def read(self, merchant: str, test: bool) -> None:
        self._lapse_all()
        self._assert_lists(merchant, test)

    def teardown(self) -> None:
        failed = sys.exc_info()[1]
        if failed is not None and not isinstance(failed, StopTest):
            self.stage.drop()
            return
        try:
            self._assert_everything()
        except BaseException:
            self.stage.drop()
            raise

    # Requests and comparisons

    def wait_until_idle(self) -> None:
        self.run(self.service.wait_until_idle())
        self.done += 1
        if self.done % CHECK_ALL_EVERY == 0:
            self._lapse_all()
            self._end_refunds_and_withdrawals()
            for merchant in ACCOUNTS:
                for test in (True, False):
                    self._assert_lists(merchant, test)
            wrong = self.run(self._book_faults_under_way())
            assert not wrong, "\n".join(wrong)

    async def _book_faults_under_way(self) -> list[str]:
        accounts = [merchant.account_id for merchant in self.merchants.values()]
        async with self.service.pool.acquire() as conn:
            return await faults(conn, accounts, but=UNENDED)

    def _ask(
        self, merchant: str, test: bool, method: str, path: str, body: Any = None, key: str | None = None,
        scenario: str | None = None,
    ) -> Reply:  # fmt: skip
        reply: Reply = self.run(
            self.service.ask(self.merchants[merchant], test, method, path, json=body, key=key, scenario=scenario)
        )
        return reply

    def _ask_with_bank(
        self, refused: bool, merchant: str, test: bool, method: str, path: str, body: Any, key: str | None = None,
        rules: ReturnRules = RETURNS_SUCCEED,
    ) -> Reply:  # fmt: skip
        """Ask. With `refused` the bank refuses everything: in the sandbox by a header, in production by a switch."""
        if not refused:
            return self._ask(merchant, test, method, path, body, key)
        self.run(self.service.set_bank_behaviour(refuse=True, returns=rules))
        reply = self._ask(merchant, test, method, path, body, key, "refuse" if test else None)
        self.run(self.service.wait_until_idle())
        self.run(self.service.set_bank_behaviour(returns=rules))
        return reply

    def _assert_answer(self, reply: Reply, wanted: Answer, what: str) -> None:
        code = "" if reply.status < 400 else str(envelope(reply)["code"])
        Walk.steps[f"{what} {reply.status} {code}".rstrip()] += 1
        assert (reply.status, code) == wanted, f"{what}: {reply.status} {code}, not {wanted}: {reply.body[:600]!r}"

    def _choose(self, charge: Charge, wanted: Callable[[Charge], bool]) -> Charge:
        """This charge if it is as wanted, or else the newest that is: so that steps are not wasted on refusals."""
        if wanted(charge):
            return charge
        return next((each for each in reversed(self.all) if wanted(each)), charge)

    def _assert_charge_and_payments(self, charge: Charge) -> None:
        charge.lapse(self.at(charge))
        reply = self._ask(charge.merchant, charge.test, "GET", f"/v1/charges/{charge.charge_id}")
        assert reply.status == 200, reply
        self._assert_same(charge, reply.json())
        if charge.payments:
            self._assert_payments(charge)

    def _assert_same(self, charge: Charge, shown: dict[str, Any]) -> None:
        seen = {
            "charge_id": shown["charge_id"],
            "kind": shown["payment_method"],
            "status": shown["status"],
            "amount": in_cents(shown["amount"]),
            "refunded": in_cents(shown["refunded_amount"]),
            "version": shown["version"],
            "external_id": shown["external_id"],
            "due": shown["due_date"],
            "test": shown["test"],
            "payment": None if shown["payment"] is None else in_cents(shown["payment"]["amount"]),
            "late": None if shown["payment"] is None else shown["payment"]["late"],
            "cancelled": shown["cancelled_at"] is not None,
            "failed": shown["failure"] is not None,
        }
        settling = charge.settling
        wanted = {
            "charge_id": charge.charge_id,
            "kind": charge.kind,
            "status": charge.status,
            "amount": charge.cents,
            "refunded": charge.refunded,
            "version": charge.version,
            "external_id": charge.external_id,
            "due": None if charge.due is None else charge.due.isoformat(),
            "test": charge.test,
            "payment": None if settling is None else settling.cents,
            "late": None if settling is None else settling.late,
            "cancelled": charge.status == "cancelled",
            "failed": charge.status == "failed",
        }
        assert seen == wanted, {each: (seen[each], wanted[each]) for each in wanted if seen[each] != wanted[each]}
        assert shown["account_id"] == str(self.merchants[charge.merchant].account_id)
        if charge.boleto:
            assert shown["effective_due_date"] == last_day(date.fromisoformat(shown["due_date"])).isoformat()
        if charge.kind != "boleto" and charge.kind != "boleto_hibrido" and charge.status == "pending":
            assert abs(instant(shown["expires_at"]) - charge.pix_ends) < timedelta(milliseconds=2)

    def _assert_payments(self, charge: Charge) -> None:
        """Compare a charge's payments with the model, which learns their ids here."""
        rows = self.run(
            self.service.all(
                self.merchants[charge.merchant],
                charge.test,
                f"/v1/payments?charge_id={charge.charge_id}&order=asc&limit=100",
            )
        )
        shown = {
            row["payment_id"]: (
                row["method"], in_cents(row["amount"]), in_cents(row["fee"]), row["anomaly"], row["late"],
                in_cents(row["refunded_amount"]),
            )
            for row in rows
        }  # fmt: skip
        assert all(in_cents(row["net_amount"]) == in_cents(row["amount"]) - in_cents(row["fee"]) for row in rows)
        brought_by = None if charge.partner is None else charge.partner.code
        assert {row["integrador_code"] for row in rows} <= {brought_by}
        named = [row["end_to_end_id"] for row in rows if row["end_to_end_id"] is not None]
        assert len(named) == len(set(named)), "two payments have one endToEndId"
        known = {payment.payment_id: payment.shown() for payment in charge.payments if payment.payment_id}
        assert {each: shown.get(each) for each in known} == known
        new = [each for each in shown if each not in known]
        for payment in charge.payments:
            if not payment.payment_id:
                found = next((each for each in new if shown[each] == payment.shown()), None)
                assert found is not None, (payment, [shown[each] for each in new])
                new.remove(found)
                payment.payment_id = found
                row = next(row for row in rows if row["payment_id"] == found)
                payment.paid_at = instant(row["paid_at"])
                payment.returnable = row["end_to_end_id"] is not None
                assert payment.by_pix == payment.returnable
        assert not new, [shown[each] for each in new]

    async def _credited(self, charge: Charge, cents: int) -> bool:
        found = await self.service.pool.fetchval(
            "SELECT coalesce(sum(amount_cents), 0)::bigint FROM payment WHERE charge_id = $1::uuid", charge.charge_id
        )
        assert found <= cents, f"{charge.charge_id} was credited {found}, and {cents} arrived"
        return bool(found == cents)

    async def _is_known_to_bank(self, refund: Refund, *, over: bool) -> bool:
        """Whether the bank has the refund in its books, or, with `over`, whether the refund has ended."""
        found = await self.service.pool.fetchval(
            _KNOWN_TO_BANK, refund.refund_id, refund.refund_id.replace("-", ""), over
        )
        return bool(found)

    async def _has_ended(self, withdrawal_id: str) -> bool:
        status = await self.service.pool.fetchval(
            "SELECT status FROM withdrawal WHERE withdrawal_id = $1::uuid", withdrawal_id
        )
        return status in ("succeeded", "failed")

    async def _new_payments_cents(self, charge: Charge) -> list[int]:
        """The amounts of the charge's payments that the model does not know yet."""
        rows = await self.service.pool.fetch(
            "SELECT payment_id::text AS id, amount_cents FROM payment WHERE charge_id = $1::uuid ORDER BY settles DESC",
            charge.charge_id,
        )
        known = {payment.payment_id for payment in charge.payments}
        return [row["amount_cents"] for row in rows if row["id"] not in known]

    def _sandbox_paid(self, charge: Charge, paid: int, times: int) -> None:
        parts = [paid] * times
        if charge.boleto:
            # The bank states a boleto's total: it is read as multiples of its amount, or as one payment (section 6).
            count, rest = divmod(paid * times, charge.cents)
            if not (rest == 0 and count == times):
                parts = [paid * times // count] * count if rest == 0 and 1 < count <= times else [paid * times]
        for part in parts:
            charge.receive(
                part, by_pix=not charge.boleto, paid_at=self.at(charge), leg="boleto" if charge.boleto else "cob"
            )

    def _pending(self, merchant: str, test: bool, reference: str) -> list[Charge]:
        self._lapse_all()
        return [
            charge
            for charge in self.all
            if (charge.merchant, charge.test, charge.external_id, charge.status)
            == (merchant, test, reference, "pending")
        ]

    def _lapse_all(self) -> None:
        for charge in self.all:
            charge.lapse(self.at(charge))

    def _end_refunds_and_withdrawals(self) -> None:
        """End in the model what the service shows as ended; the service decides when it asks the bank."""
        for charge in self.all:
            if any(refund.status == "pending" for refund in charge.refunds):
                self._end_refunds(charge)
        for (merchant, test), wallet in self.wallets.items():
            for withdrawal in wallet.withdrawals:
                if withdrawal.status in ("pending", "processing"):
                    shown = self._ask(merchant, test, "GET", f"/v1/withdrawals/{withdrawal.withdrawal_id}").json()
                    if shown["status"] not in ("pending", "cancelled"):
                        assert self.now >= withdrawal.sends_at, "the withdrawal was sent before its time"
                    assert shown["status"] != "cancelled", "the withdrawal is cancelled, though no request cancelled it"
                    withdrawal.become(shown["status"])

    def _end_refunds(self, charge: Charge) -> None:
        """End refunds in the order of their events: the partner's share of the last cent depends on it."""
        path = f"/v1/events?charge_id={charge.charge_id}&type=refund.succeeded&type=refund.failed&order=asc&limit=100"
        ended = self.run(self.service.all(self.merchants[charge.merchant], charge.test, path))
        pending = {refund.refund_id: refund for refund in charge.refunds if refund.status == "pending"}
        for refund in [pending[event["refund_id"]] for event in ended if event["refund_id"] in pending]:
            shown = self._ask(charge.merchant, charge.test, "GET", f"/v1/refunds/{refund.refund_id}").json()
            assert self.at(charge) >= refund.ends_at, (
                f"ended at {self.at(charge)}, before the bank knew: {refund.ends_at}: {shown}"
            )
            charge.refund_ended(refund)
            assert shown["status"] == refund.status, (shown, refund)
            assert (shown["failure_code"] is not None) == (refund.status == "failed")
            assert in_cents(shown["amount"]) == refund.cents

    def _assert_lists(self, merchant: str, test: bool) -> None:
        service, at = self.service, self.merchants[merchant]
        mine = [charge for charge in self.all if (charge.merchant, charge.test) == (merchant, test)]
        charges = self.run(service.all(at, test, "/v1/charges?limit=100"))
        assert {row["charge_id"] for row in charges} == {charge.charge_id for charge in mine}
        by_id = {charge.charge_id: charge for charge in mine}
        for row in charges:
            self._assert_same(by_id[row["charge_id"]], row)
        pending = self.run(service.all(at, test, "/v1/charges?status=pending&limit=7"))
        assert len(pending) == sum(charge.status == "pending" for charge in mine)
        brought = self.run(service.all(at, test, f"/v1/charges?integrador_code={self.partner.code}&limit=100"))
        assert {row["charge_id"] for row in brought} == {charge.charge_id for charge in mine if charge.partner}
        self._assert_feed(
            merchant, mine, self.run(service.all(at, test, "/v1/events?after_sequence=0&limit=100")), test
        )
        self._assert_ledger(merchant, test)
        payments = self.run(service.all(at, test, "/v1/payments?limit=100"))
        assert Counter(in_cents(row["amount"]) for row in payments) == Counter(
            payment.cents for charge in mine for payment in charge.payments
        )
        refunds = self.run(service.all(at, test, "/v1/refunds?limit=100"))
        assert {row["refund_id"]: row["status"] for row in refunds} == {
            refund.refund_id: refund.status for charge in mine for refund in charge.refunds
        }

    def _assert_feed(self, merchant: str, mine: list[Charge], feed: list[dict[str, Any]], test: bool) -> None:
        assert [event["sequence"] for event in feed] == list(range(1, len(feed) + 1)), "the feed is not dense"
        assert [event["created_at"] for event in feed] == sorted(event["created_at"] for event in feed)
        wanted = {charge.charge_id: charge.events for charge in mine}
        wanted |= {each.withdrawal_id: each.events for each in self.wallets[merchant, test].withdrawals}
        shown: dict[str, list[str]] = {each: [] for each in wanted}
        for event in feed:
            assert event["event"] == event["type"]
            assert event["test"] is test
            shown[event.get("charge_id") or event["withdrawal_id"]].append(event["type"])
        assert shown == wanted, {each: (shown[each], wanted[each]) for each in wanted if shown[each] != wanted[each]}

    def _assert_ledger(self, merchant: str, test: bool) -> None:
        account_id, wallet = self.merchants[merchant].account_id, self.wallets[merchant, test]
        for charge in self.all if merchant == PARTNER else ():
            if any(not payment.payment_id for payment in charge.payments):
                self._assert_payments(charge)
        lines = self.run(
            self.service.all(self.merchants[merchant], test, f"/v1/accounts/{account_id}/ledger?order=asc&limit=100")
        )
        total, seen = 0, []
        for number, line in enumerate(lines, 1):
            assert line["sequence"] == number, "the ledger is not dense"
            amount = in_cents(line["amount"]) * (1 if line["direction"] == "credit" else -1)
            total += amount
            assert in_cents(line["balance_after"]) == total
            of = line["charge_id"] or line["withdrawal_id"]
            if line["type"] == "partner_share":
                assert (of, line["external_id"]) == (None, None), "a share names another merchant's charge"
                of = f"{line['payment_id']}/{line['refund_id'] or ''}"
            seen.append((line["type"], amount, of))
        stated, wanted = counted(seen), counted(wallet.statement)
        assert stated == wanted, (stated - wanted, wanted - stated)
        reply = self._ask(merchant, test, "GET", f"/v1/accounts/{account_id}/balance")
        assert in_cents(reply.json()["balance"]) == wallet.balance == total

    def _assert_everything(self) -> None:
        """Compare everything once nothing is under way."""
        self.run(self.service.wait_until_at_rest())
        self._lapse_all()
        self._end_refunds_and_withdrawals()
        assert not [refund for charge in self.all for refund in charge.refunds if refund.status == "pending"]
        for charge in self.all:
            self._assert_charge_and_payments(charge)
        for merchant in ACCOUNTS:
            for test in (True, False):
                self._assert_lists(merchant, test)
        self.run(self.service.wait_until_at_rest())
        wrong = self.run(self._book_faults()) + [f"logged as an error: {error}" for error in self.service.errors]
        assert not wrong, "\n".join(wrong)

    async def _book_faults(self) -> list[str]:
        accounts = [merchant.account_id for merchant in self.merchants.values()]
        async with self.service.pool.acquire() as conn:
            wrong = await faults(conn, accounts)
            for merchant in self.merchants.values():
                wrong += await webhook_faults(conn, merchant.account_id, merchant.received_bodies)
        wrong += [
            f"{each.table}: {each.what}: {each.rows}" for each in await verify(self.service.settings.database_url)
        ]
        return wrong


def instant(shown: str) -> datetime:
    return datetime.fromisoformat(shown)


def _of_reference(found: list[Charge]) -> Answer:
    if not found:
        return 404, "CHARGE_NOT_FOUND"
    return (200, "") if len(found) == 1 else (409, "CANCEL_REFERENCE_AMBIGUOUS")


def _amount(charge: Charge, how: str) -> int:
    return {"exact": charge.cents, "less": max(1, charge.cents // 2), "more": charge.cents + 7}[how]
