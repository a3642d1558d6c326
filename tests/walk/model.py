"""The model of the walks: charges, payments, refunds and wallets, written from the spec and the contract.

It shares no code with the service: when they differ, one of them is wrong. Amounts are cents, instants are UTC.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Final

# Spec, States and transitions; contract sections 5, 6 and 11.
NEXT: Final[dict[str, set[str]]] = {
    "pending": {"paid", "cancelled", "expired", "failed"},
    "expired": {"paid"},
    "paid": {"refunded"},
    "cancelled": set(),
    "refunded": set(),
    "failed": set(),
}
RETURN_WITHIN: Final = timedelta(days=90)
TRANSFER_WITHIN: Final = timedelta(days=180)
WITHDRAWAL_MINIMUM: Final = 100
"""The least amount of a withdrawal."""

Answer = tuple[int, str]
"""Status and error code of an answer; the code of a success, (200, "") or (201, ""), is empty."""


@dataclass(frozen=True)
class Fees:
    """The fees of docs/fees.md, in cents and in hundredths of a percent (bps)."""

    pix_bps: int = 0
    pix_cents: int = 0
    pix_min: int = 0
    boleto: int = 0
    withdrawal: int = 0

    def of_payment(self, cents: int, *, by_pix: bool) -> int:
        if not by_pix:
            return min(self.boleto, cents)
        percentage = Fraction(cents * self.pix_bps, 10_000)
        half_up = percentage.numerator // percentage.denominator + (percentage % 1 >= Fraction(1, 2))
        return min(max(half_up + self.pix_cents, self.pix_min), cents)


@dataclass(eq=False)
class Payment:
    """A payment that arrived. `back` is refunded, `going` is in pending refunds. `returnable`: its endToEndId is known,
    so it can be returned to the paying account."""

    cents: int
    by_pix: bool
    settles: bool
    anomaly: str | None
    late: bool
    paid_at: datetime
    payment_id: str = ""
    returnable: bool = False
    back: int = 0
    going: int = 0
    fee: int = 0
    share_bps: int = 0
    """The share of the payment for the partner whose code its charge has."""

    @property
    def left(self) -> int:
        return self.cents - self.back - self.going

    @property
    def kept_by_partner(self) -> int:
        """The partner's share, rounded down, of what the merchant keeps."""
        return (self.cents - self.back) * self.share_bps // 10_000

    def shown(self) -> tuple[str, int, int, str | None, bool, int]:
        return ("pix" if self.by_pix else "boleto", self.cents, self.fee, self.anomaly, self.late, self.back)


@dataclass(eq=False)
class Refund:
    charge: Charge
    payment: Payment
    cents: int
    arrives: bool
    ends_at: datetime
    """When the bank ends the refund; the service learns of it later."""
    refund_id: str = ""
    status: str = "pending"


@dataclass(eq=False)
class Withdrawal:
    """A withdrawal (contract section 13): pending until it is sent; only a pending one can be cancelled."""

    wallet: Wallet
    withdrawal_id: str
    cents: int
    sends_at: datetime
    status: str = "pending"
    events: list[str] = field(default_factory=list)

    def become(self, status: str) -> None:
        if status == self.status:
            return
        if status != "processing":
            may = {
                "succeeded": {"pending", "processing"},
                "failed": {"pending", "processing"},
                "cancelled": {"pending"},
            }
            assert self.status in may[status], f"{self.status} -> {status}"
            if status != "succeeded":
                self.wallet.book("withdrawal_reversal", self.cents, self.withdrawal_id)
                self.wallet.book("fee", self.wallet.fees.withdrawal, self.withdrawal_id)
            if status != "cancelled":
                self.events.append(f"withdrawal.{status}")
        else:
            assert self.status == "pending"
        self.status = status


@dataclass(eq=False)
class Wallet:
    """The wallet of an account in one mode."""

    fees: Fees = Fees()
    lines: list[tuple[str, int, str]] = field(default_factory=list)
    """The ledger entries: type, signed cents, id of the charge or withdrawal."""
    withdrawals: list[Withdrawal] = field(default_factory=list)
    shares: list[tuple[Payment, Refund | None, int]] = field(default_factory=list)
    """Of a partner: the shared payment, the refund that takes a share back (or None), signed cents."""

    @property
    def balance(self) -> int:
        return sum(cents for _, cents, _ in self.lines) + sum(cents for _, _, cents in self.shares)

    @property
    def statement(self) -> list[tuple[str, int, str]]:
        """All entries. Those of shares name payment and refund instead of the charge, which is another merchant's."""
        return self.lines + [
            ("partner_share", cents, f"{payment.payment_id}/{refund.refund_id if refund else ''}")
            for payment, refund, cents in self.shares
        ]

    def book(self, kind: str, cents: int, of: str) -> None:
        if not cents:
            return
        self.lines.append((kind, cents, of))
        # Only a partner's balance may fall below zero: a share that he has withdrawn may be taken back.
        assert cents > 0 or self.balance >= 0, "a debit exceeds the balance"

    def to_withdraw(self, cents: int) -> Answer:
        """The expected answer to a withdrawal."""
        if cents < WITHDRAWAL_MINIMUM:
            return 422, "WITHDRAWAL_BELOW_MINIMUM"
        return (201, "") if cents + self.fees.withdrawal <= self.balance else (422, "INSUFFICIENT_BALANCE")

    def withdraw(self, withdrawal_id: str, cents: int, *, sends_at: datetime) -> Withdrawal:
        self.book("withdrawal", -cents, withdrawal_id)
        self.book("fee", -self.fees.withdrawal, withdrawal_id)
        made = Withdrawal(self, withdrawal_id, cents, sends_at)
        self.withdrawals.append(made)
        return made


@dataclass(eq=False)
class Partner:
    """A partner: his code stands on charges, and he gets a share of their payments unless it rounds down to nothing."""

    code: str
    wallets: dict[bool, Wallet]
    """The partner's wallets by `test`."""
    agreed: list[tuple[datetime, int]] = field(default_factory=list)
    """Agreed shares in basis points, each with the instant it applies from."""
    active: bool = True

    def bps(self, issued_at: datetime) -> int:
        """The share in force when a charge was issued, by the charge's clock. A sandbox may issue a charge ahead of
        real time: its share is then the one agreed for that time when its payment arrives, as shares are agreed in
        real time."""
        return next((bps for since, bps in reversed(self.agreed) if since <= issued_at), 0)


@dataclass(eq=False)
class Charge:
    merchant: str
    test: bool
    wallet: Wallet
    charge_id: str
    kind: str
    cents: int
    external_id: str | None
    expires_at: datetime
    due: date | None = None
    pix_until: datetime | None = None
    """When the PIX leg of a dual charge expires, if `expires_in` was given."""
    number: str = ""
    partner: Partner | None = None
    issued_at: datetime | None = None
    status: str = "pending"
    version: int = 1
    events: list[str] = field(default_factory=list)
    """The kinds of its events, in order."""
    payments: list[Payment] = field(default_factory=list)
    refunds: list[Refund] = field(default_factory=list)
    boleto: str = ""
    """The boleto's state at the bank: open, paid or written_off; empty when the charge has none."""
    cob: str = ""
    """The cob's state at the bank: active, done or removed; empty when the charge has none."""

    def __post_init__(self) -> None:
        self.boleto = "" if self.kind == "pix" else "open"
        self.cob = "active" if self.kind in ("pix", "boleto_pix") else ""

    @property
    def dual(self) -> bool:
        return self.kind == "boleto_pix"

    @property
    def refunded(self) -> int:
        return sum(payment.back for payment in self.payments)

    @property
    def settling(self) -> Payment | None:
        return next((payment for payment in self.payments if payment.settles), None)

    @property
    def pix_ends(self) -> datetime:
        return self.expires_at if self.pix_until is None else min(self.expires_at, self.pix_until)

    # Changes

    def lapse(self, now: datetime) -> None:
        """Expire a pending charge whose time has passed, as every read and change does."""
        if self.status == "pending" and self.expires_at <= now:
            self._become("expired", "charge.expired")

    def cancel(self) -> None:
        self._become("cancelled", "charge.cancelled")
        self._close()

    def fail(self) -> None:
        self._become("failed", "charge.failed")
        self._close()

    def redate(self, due: date, expires_at: datetime) -> None:
        assert self.status == "pending"
        assert self.boleto
        self.version += 1
        self.due, self.expires_at = due, expires_at
        self.events.append("charge.due_date_changed")

    def receive(self, cents: int, *, by_pix: bool, paid_at: datetime, leg: str) -> Payment:
        """Book a payment, in any state (contract sections 6 and 7). `leg`: where the bank has booked it."""
        settles, anomaly = False, None
        if "paid" in NEXT[self.status]:
            settles = cents >= self.cents
            anomaly = None if cents == self.cents else "amount_mismatch"
        else:
            anomaly = "duplicate" if self.status in ("paid", "refunded") else "paid_after_cancel"
        late = paid_at >= self.expires_at or (self.status == "expired" and not by_pix)
        payment = Payment(cents, by_pix, settles, anomaly, late, paid_at)
        self.payments.append(payment)
        payment.fee = self.wallet.fees.of_payment(cents, by_pix=by_pix)
        self.wallet.book("payment", cents, self.charge_id)
        self.wallet.book("fee", -payment.fee, self.charge_id)
        if self.partner is not None:
            assert self.issued_at is not None
            payment.share_bps = self.partner.bps(self.issued_at)
            self._share(payment, None, payment.kept_by_partner)
        if leg == "boleto":
            self.boleto = "paid"
        elif self.cob == "active":
            self.cob = "done"
        if settles:
            self._become("paid", "payment.received")
            if self.dual:
                self._close()
        if anomaly is not None:
            self.events.append("payment.anomaly")
        return payment

    def refund(self, payment: Payment, cents: int, *, arrives: bool, ends_at: datetime) -> Refund:
        assert 0 < cents <= payment.left
        payment.going += cents
        self.wallet.book("refund", -cents, self.charge_id)
        made = Refund(self, payment, cents, arrives, ends_at)
        self.refunds.append(made)
        return made

    def refund_ended(self, refund: Refund) -> None:
        assert refund.status == "pending"
        refund.payment.going -= refund.cents
        if not refund.arrives:
            refund.status = "failed"
            self.wallet.book("refund_reversal", refund.cents, self.charge_id)
            self.events.append("refund.failed")
            return
        refund.status = "succeeded"
        before = refund.payment.kept_by_partner
        refund.payment.back += refund.cents
        self._share(refund.payment, refund, refund.payment.kept_by_partner - before)
        self.version += 1
        self.events.append("refund.succeeded")
        if self.status == "paid" and all(payment.back == payment.cents for payment in self.payments):
            self._become("refunded", "charge.refunded")

    # Expected answers

    def to_cancel(self, *, refused: bool) -> Answer:
        if self.status != "pending":
            return 409, "CHARGE_NOT_PENDING"
        # An underpaid boleto is closed at the production bank, which answers so even while it refuses changes: it can
        # be cancelled. In the sandbox the header refuses every call.
        return (502, "BANK_UNAVAILABLE") if refused and (self.boleto == "open" or self.test) else (200, "")

    def to_redate(self, due: date, *, refused: bool) -> Answer:
        if not self.boleto:
            return 404, "CHARGE_NOT_FOUND"
        if self.status != "pending":
            return 409, "CHARGE_NOT_PENDING"
        if due == self.due:
            return 200, ""
        # An underpaid boleto is closed at the bank, and its charge stays pending here. As in `to_cancel`, the
        # production bank answers so even while it refuses changes.
        if refused and (self.boleto == "open" or self.test):
            return 502, "BANK_UNAVAILABLE"
        return (409, "CHARGE_NOT_PENDING") if self.boleto == "paid" else (200, "")

    def to_simulated_payment(self) -> Answer:
        # An underpaid charge is pending as well: the payer may then pay the whole amount.
        return (200, "") if self.status == "pending" else (409, "CHARGE_NOT_PENDING")

    def to_refund(
        self, payment: Payment | None, cents: int | None, *, destination: bool, now: datetime
    ) -> tuple[Answer, int]:
        """The expected answer to a refund, and the amount it returns."""
        if payment is None:
            return (409, "CHARGE_NOT_REFUNDABLE"), 0
        if destination and not self.boleto:
            return (400, "VALIDATION_ERROR"), 0
        age = now - payment.paid_at
        if not (payment.returnable and age <= RETURN_WITHIN):
            if not self.boleto or age > TRANSFER_WITHIN:
                return (409, "CHARGE_NOT_REFUNDABLE"), 0
            if not destination:
                return (422, "REFUND_DESTINATION_REQUIRED"), 0
        wanted = payment.left if cents is None else cents
        if not 0 < wanted <= payment.left:
            return (422, "REFUND_EXCEEDS"), 0
        if wanted > self.wallet.balance:
            return (422, "INSUFFICIENT_BALANCE"), 0
        return (201, ""), wanted

    def payable_at_bank(self, leg: str, *, force: bool, now: datetime, today: date, last_day: date | None) -> bool:
        """Whether a payer's bank accepts the payment: it checks first, unless the payment was under way (`force`)."""
        if force:
            return True
        if leg == "cob":
            return self.cob == "active" and now < self.pix_ends
        assert last_day is not None
        return self.boleto == "open" and today <= last_day

    def _become(self, status: str, event: str) -> None:
        assert status in NEXT[self.status], f"{self.status} -> {status} is not in the spec's table"
        self.status = status
        self.version += 1
        self.events.append(event)

    def _share(self, payment: Payment, refund: Refund | None, cents: int) -> None:
        if cents and self.partner is not None:
            self.partner.wallets[self.test].shares.append((payment, refund, cents))

    def _close(self) -> None:
        if self.boleto == "open":
            self.boleto = "written_off"
        if self.cob == "active":
            self.cob = "removed"


def counted(lines: list[tuple[str, int, str]]) -> Counter[tuple[str, int, str]]:
    return Counter(lines)
