"""E-mail end to end: a charge with send_email becomes mails, and a real mail server gets each, whatever goes wrong.

The tests set the clock, so days pass in a call. Everything else is real: PostgreSQL, the commands, the duties, SMTP.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import structlog
from msgspec.structs import replace

from banks.simulated.bank import PRODUCTION, SimulatedBank
from commands.bank_orders.kinds import Payload
from commands.charges.cancel import cancellation
from commands.charges.change import change_charges
from commands.charges.create_pix import NewPix, create_pix
from commands.charges.pay import Confirmation, confirm_payments
from commands.charges.redate import redate_boleto
from commands.mail import (
    ASKED_DAY,
    ASKED_IN,
    ASKED_MAX,
    ASKED_OF_ACCOUNT_MAX,
    ASKED_TO_MAX,
    ask_for_mail,
    read_stop_token,
)
from commands.merchants.merchants import MerchantCreated, create_merchant
from commands.merchants.profile.logo import set_logo
from commands.merchants.profile.logo_pixels import read_logo
from commands.people.people import PEOPLE_MAX, add_person
from commands.webhooks.notices import A_DAY_MAX, NewNotice, give_notice
from domain.boleto.terms import Fine, Interest, PaymentTerms
from domain.charge import CancelReason
from domain.errors import Refused
from domain.instants import SAO_PAULO, iso, to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from readmodels.charges.charge import ChargeDoc
from readmodels.documents.mail_letter import charge_letter
from runtime.ids import new_id, new_token
from runtime.postgres import Pool, transaction
from runtime.seal import CHARGE_PAYER, Seal
from runtime.servers.smtp import SmtpServer
from runtime.settings import read_settings
from tests.support.banking import SECRET_KEY, settings_for, worker_context
from tests.support.boletos import AGREEMENT, PAYER, issue
from tests.support.mail_server import MailServer, mail_server
from tests.support.merchant import until_answer
from tests.support.pictures import draw_logo
from workers.context import Context
from workers.mail import sender as mail_worker
from workers.mail.sender import BACKOFF_S, LEASE, MailSender, forget_mails, release_mails, write_due_mails

SEAL = Seal(bytes.fromhex(SECRET_KEY))
START = datetime(2027, 3, 1, 10, tzinfo=SAO_PAULO).astimezone(UTC)  # a Monday


class Post:
    """A mail worker, its mail server and a clock that the test sets."""

    def __init__(self, context: Context, server: MailServer, merchant: MerchantCreated) -> None:
        self.context = context
        self.server = server
        self.merchant = merchant
        self.now = START
        self.worker = MailSender(context)

    async def work(self) -> None:
        """Write and send mails until nothing is left to do at this instant."""
        for _ in range(20):
            done = await write_due_mails(self.context) + await self.worker.drain()
            if not done:
                return
        raise AssertionError("each of 20 rounds wrote or sent a mail")

    async def work_at(self, when: datetime) -> None:
        self.now = when.astimezone(UTC)
        await self.work()

    def subjects(self, address: str) -> list[str]:
        return [str(taken.message["Subject"]).replace("\u00a0", " ") for taken in self.server.of(address)]

    async def states(self) -> list[tuple[str, int, str | None]]:
        rows = await self.context.pool.fetch(
            "SELECT state, attempts, trouble FROM mail WHERE account_id = $1 ORDER BY created_at, mail_id",
            self.merchant.account_id,
        )
        return [tuple(row) for row in rows]

    async def pix(
        self, to: str | None, *, lifetime: timedelta = timedelta(days=10), test: bool = False, send_email: bool = True
    ) -> ChargeDoc:
        """Store a PIX charge as the API does."""
        now, charge_id = to_millisecond(self.now), new_id()
        doc = ChargeDoc(
            account_id=str(self.merchant.account_id), charge_id=str(charge_id), test=test, public_id=new_token(),
            payment_method="pix", status="pending", version=1, amount_cents=15000, description="Pedido <1>",
            txid=charge_id.hex, qr_code="000201PIXDOTESTE", send_email=send_email, created_at=iso(now),
            expires_at=iso(now + lifetime),
        )  # fmt: skip
        payer = SEAL.seal(
            msgspec.json.encode({"name": "Ana", **({} if to is None else {"email": to})}), CHARGE_PAYER, charge_id
        )
        new = NewPix(
            bank="001",
            key=str(charge_id), fingerprint=bytes(32),
            order_id=new_id(), location="l/1",
            payer_sealed=payer, actor="test", request_id="req", payload=Payload(doc), order=msgspec.Raw(b"{}"),
        )  # fmt: skip
        async with transaction(self.context.pool) as conn:
            assert await create_pix(conn, [new]) == {charge_id}
            # These tests have no bank.
            await conn.execute("DELETE FROM bank_order WHERE charge_id = $1", charge_id)
        return doc

    async def pay(self, doc: ChargeDoc) -> None:
        async with transaction(self.context.pool) as conn:
            await confirm_payments(
                conn,
                [
                    Confirmation(
                        charge_id=UUID(doc.charge_id), end_to_end_id=f"E99999997{new_token()}", amount_cents=15000,
                        paid_at=self.now, payer_name="Ana", payer_document="12345678909",
                    )
                ],
                now=self.now, seal=SEAL, fees=NO_FEES,
            )  # fmt: skip


@pytest.fixture
async def post(pool: Pool, servers: Any) -> AsyncIterator[Post]:
    async with opened(pool, servers) as made:
        yield made


@asynccontextmanager
async def opened(pool: Pool, servers: Any, **env: str) -> AsyncIterator[Post]:
    await pool.execute("DELETE FROM mail")
    await pool.execute("DELETE FROM mail_request")
    await pool.execute("DELETE FROM notice")
    async with transaction(pool) as conn:
        merchant = await create_merchant(conn, name="Açaí & Cia", address=True, kyc="approved", now=START)
    async with (
        mail_server(user="quita", password="s3nha/@") as server,
        worker_context(
            pool, servers.redis_url, SimulatedBank(pool, SEAL, world=PRODUCTION, url="", now=lambda: START)
        ) as context,
    ):
        url = server.url.replace("s3nha/@", "s3nha%2F%40")
        given = {"SMTP_URL": url, "MAIL_FROM": "cobrancas@quita.example.com", "APP_URL": "https://app.example.com"}
        context.settings = settings_for(**(given | env))
        made = Post(context, server, merchant)
        context.now = lambda: made.now
        yield made


async def test_a_pix_charge_with_send_email_is_mailed_once_with_its_code_and_its_links(post: Post) -> None:
    doc = await post.pix("ana@example.com")
    await post.work()
    await post.work_at(START + timedelta(hours=1))
    (taken,) = post.server.of("ana@example.com")
    message = taken.message
    assert taken.sender == "cobrancas@quita.example.com"
    assert message["To"] == "ana@example.com"
    assert "Açaí & Cia via Quita" in str(message["From"])
    assert post.subjects("ana@example.com") == ["Cobrança de Açaí & Cia: R$ 150,00, vence em 11/03/2027"]
    text, html = taken.part("plain"), taken.part("html")
    for part in (text, html):
        assert "R$\u00a0150,00" in part
        assert "11/03/2027 às 10:00" in part
        assert "000201PIXDOTESTE" in part
        assert f"https://app.example.com/pagar/{doc.public_id}" in part
    assert "Pedido <1>" in text
    assert "Pedido &lt;1&gt;" in html
    link = str(message["List-Unsubscribe"]).strip("<>")
    assert link in text
    assert link in html
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    found = read_stop_token(link.rpartition("/")[2], SEAL)
    assert found is not None
    assert found[0] == post.merchant.account_id
    mail_id = await post.context.pool.fetchval("SELECT mail_id FROM mail WHERE charge_id = $1", UUID(doc.charge_id))
    assert message["Message-ID"] == f"<{mail_id}@quita.example.com>"
    assert set(post.server.logins) == {"quita"}
    assert not list(message.iter_attachments())


@pytest.mark.parametrize(
    ("to", "test", "send_email"),
    [("bia@example.com", True, True), ("bia@example.com", False, False), (None, False, True)],
)
async def test_a_charge_in_test_mode_or_without_send_email_or_without_an_address_is_not_mailed(
    post: Post, to: str | None, test: bool, send_email: bool
) -> None:
    await post.pix(to, test=test, send_email=send_email)
    for day in range(12):
        await post.work_at(START + timedelta(days=day))
    assert post.server.mails == []
    assert await post.context.pool.fetchval("SELECT count(*) FROM mail_request") == 0


async def test_reminders_are_sent_at_nine_three_days_before_the_due_date_and_on_it(post: Post) -> None:
    await post.pix("caio@example.com")  # expires on 11 March at 10:00
    seen: dict[int, datetime] = {}
    for hour in range(24 * 12):
        await post.work_at(START + timedelta(hours=hour))
        for count in range(len(seen), len(post.server.mails)):
            seen[count] = post.now.astimezone(SAO_PAULO)
    assert [(at.day, at.hour) for at in seen.values()] == [(1, 10), (8, 9), (11, 9)]
    assert post.subjects("caio@example.com") == [
        "Cobrança de Açaí & Cia: R$ 150,00, vence em 11/03/2027",
        "Lembrete: R$ 150,00 para Açaí & Cia vence em 11/03/2027",
        "Vence hoje: R$ 150,00 para Açaí & Cia",
    ]


async def test_a_payment_is_answered_with_a_receipt_and_ends_the_reminders(post: Post) -> None:
    doc = await post.pix("davi@example.com")
    await post.work()
    await post.work_at(START + timedelta(days=1))
    await post.pay(doc)
    await post.work()
    for day in range(2, 12):
        await post.work_at(START + timedelta(days=day))
    assert post.subjects("davi@example.com") == [
        "Cobrança de Açaí & Cia: R$ 150,00, vence em 11/03/2027",
        "Pagamento recebido: R$ 150,00 para Açaí & Cia",
    ]
    receipt = post.server.of("davi@example.com")[1].part("plain")
    assert "000201PIXDOTESTE" not in receipt
    assert "02/03/2027" in receipt


async def test_a_charge_paid_before_its_first_mail_gets_the_receipt_only(post: Post) -> None:
    doc = await post.pix("eva@example.com")
    await post.pay(doc)
    await post.work()
    assert post.subjects("eva@example.com") == ["Pagamento recebido: R$ 150,00 para Açaí & Cia"]


async def test_every_payment_of_a_busy_account_gets_one_receipt(post: Post) -> None:
    docs = [await post.pix(f"p{n}@example.com") for n in range(10)]
    await post.work()
    assert len(post.server.mails) == 10
    for doc in docs:
        await post.pay(doc)
    await post.work()
    assert [len(post.subjects(f"p{n}@example.com")) for n in range(10)] == [2] * 10


async def test_a_payer_that_cannot_be_decrypted_does_not_hold_up_the_mails_of_others(post: Post) -> None:
    """The failure is logged and the payer tried again each day, because the key may be restored."""
    doc = await post.pix("ilda@example.com")
    for n in range(3):
        await post.pix(f"q{n}@example.com")
    charge_id = UUID(doc.charge_id)
    sealed = await post.context.pool.fetchval("SELECT payer_sealed FROM charge WHERE charge_id = $1", charge_id)
    give = "UPDATE charge SET payer_sealed = $2 WHERE charge_id = $1"
    await post.context.pool.execute(give, charge_id, bytes((255,)) + sealed[1:])
    with structlog.testing.capture_logs() as logs:
        await post.work()
    assert [len(post.subjects(f"q{n}@example.com")) for n in range(3)] == [1] * 3
    assert [(each["event"], each["charge_id"]) for each in logs if each["log_level"] == "error"] == [
        ("mail_payer_not_readable", doc.charge_id)
    ]
    await post.context.pool.execute(give, charge_id, sealed)
    await post.work_at(START + timedelta(days=1))
    assert post.subjects("ilda@example.com") == ["Cobrança de Açaí & Cia: R$ 150,00, vence em 11/03/2027"]
    await post.context.pool.execute(give, charge_id, bytes((255,)) + sealed[1:])
    for day in range(2, 60):
        await post.work_at(START + timedelta(days=day))
    assert await post.context.pool.fetchval("SELECT count(*) FROM mail_request WHERE charge_id = $1", charge_id) == 0


async def test_a_cancelled_charge_gets_no_reminders(post: Post) -> None:
    doc = await post.pix("fabio@example.com")
    await post.work()
    owner = Owner(post.merchant.account_id, Mode.PRODUCTION)
    change = cancellation(UUID(doc.charge_id), owner, reason=CancelReason.CANCELLED, actor="test", request_id="req")
    async with transaction(post.context.pool) as conn:
        await change_charges(conn, [change], now=post.now)
    for day in range(1, 12):
        await post.work_at(START + timedelta(days=day))
    assert len(post.server.mails) == 1


async def boleto(post: Post, to: str, due: date, terms: PaymentTerms | None = None) -> ChargeDoc:
    """Store a boleto as its registration does."""
    async with transaction(post.context.pool) as conn:
        doc = await issue(
            conn, SEAL, post.merchant.account_id, test=False, due=due, now=post.now,
            payer=msgspec.structs.replace(PAYER, email=to), send_email=True, terms=terms,
        )  # fmt: skip
        await conn.execute(
            "INSERT INTO mail_request (charge_id, account_id, due_at) VALUES ($1, $2, $3)",
            UUID(doc.charge_id), post.merchant.account_id, post.now,
        )  # fmt: skip
    return doc


async def test_the_mail_of_a_boleto_has_its_line_and_its_pdf(post: Post) -> None:
    doc = await boleto(post, "gil@example.com", date(2027, 3, 20))  # a Saturday
    await post.work()
    (taken,) = post.server.of("gil@example.com")
    assert doc.boleto is not None
    text = taken.part("plain")
    assert doc.boleto.linha_digitavel in "".join(sign for sign in text if sign.isdigit())
    assert "Vencimento: 20/03/2027" in text
    assert "Pagável até: 22/03/2027" in text
    (pdf,) = taken.message.iter_attachments()
    assert pdf.get_content_type() == "application/pdf"
    assert pdf.get_filename() == f"boleto-{doc.boleto.nosso_numero}.pdf"
    assert pdf.get_content().startswith(b"%PDF-")


async def test_the_mail_of_a_boleto_states_its_fine_and_interest(post: Post) -> None:
    terms = PaymentTerms(fine=Fine(percent_bps=200), interest=Interest(month_bps=100), payable_days=30)
    await boleto(post, "lia@example.com", date(2027, 3, 18), terms)
    await post.work()
    (taken,) = post.server.of("lia@example.com")
    text = taken.part("plain").replace(" ", " ")
    assert "Após 18/03/2027: multa de 2,00% (R$ 24,69)." in text
    assert "Após 18/03/2027: juros de 1,00% ao mês." in text
    assert "Não pode ser pago após 19/04/2027." in text


@pytest.mark.parametrize("first", [date(2027, 3, 10), date(2027, 4, 20)], ids=["later", "earlier"])
async def test_the_reminders_of_a_redated_boleto_follow_its_new_due_date(post: Post, first: date) -> None:
    doc = await boleto(post, "hugo@example.com", first)
    await post.work()
    async with transaction(post.context.pool) as conn:
        assert doc.boleto is not None
        await redate_boleto(
            conn, UUID(doc.charge_id), date(2027, 3, 18), boleto=doc.boleto, redated=0, pix_until=None,
            agreement=AGREEMENT, now=post.now, actor="test", request_id="req",
        )  # fmt: skip
    for day in range(1, 20):
        await post.work_at(datetime(2027, 3, 1 + day, 9, 30, tzinfo=SAO_PAULO))
    assert [subject.partition(":")[0] for subject in post.subjects("hugo@example.com")] == [
        "Cobrança de Açaí & Cia", "Lembrete", "Vence hoje",
    ]  # fmt: skip
    assert "18/03/2027" in post.subjects("hugo@example.com")[1]


async def test_an_address_that_stopped_a_merchants_mails_gets_no_more(post: Post) -> None:
    await post.pix("Ivo@example.com")
    await post.work()
    link = str(post.server.mails[0].message["List-Unsubscribe"]).strip("<>")
    found = read_stop_token(link.rpartition("/")[2], SEAL)
    assert found is not None
    await post.context.pool.execute("INSERT INTO mail_stop VALUES ($1, $2, $3)", *found, post.now)
    await post.pix("ivo@EXAMPLE.com")
    await post.work()
    assert len(post.server.mails) == 1
    assert await post.states() == [("sent", 1, None), ("skipped", 1, "stopped")]
    await post.pix("eva@example.com")
    await post.work()
    assert len(post.server.of("eva@example.com")) == 1


async def test_a_mail_to_a_payer_embeds_the_logo_and_loads_nothing_from_the_network(post: Post) -> None:
    logo, account_id = read_logo(draw_logo()), post.merchant.account_id
    async with transaction(post.context.pool) as conn:
        await set_logo(conn, account_id, logo, now=START)
    doc = await post.pix("lia@example.com")
    await post.work()
    (taken,) = post.server.of("lia@example.com")
    html = taken.part("html")
    (image,) = [each for each in taken.message.walk() if each.get_content_type() == "image/png"]
    assert image.get_content() == logo.image
    assert f'src="cid:{str(image["Content-ID"]).strip("<>")}"' in html
    assert 'src="http' not in html
    assert not list(taken.message.iter_attachments()), "the logo is embedded in the page, not attached"
    await post.context.pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", account_id)
    await post.pay(doc)
    await post.work()
    receipt = post.server.of("lia@example.com")[-1]
    assert "Pagamento recebido" in receipt.part("plain")
    assert "cid:" not in receipt.part("html"), "the logo of a blocked merchant is not shown"


async def test_payers_of_a_blocked_merchant_get_receipts_and_nothing_else(
    post: Post,
) -> None:
    pool, account_id = post.context.pool, post.merchant.account_id
    doc = await post.pix("jana@example.com")
    await post.pix("kai@example.com")
    await post.work()
    await pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", account_id)
    for day in range(1, 11):
        await post.work_at(START + timedelta(days=day))
    assert len(post.server.mails) == 2, "the first mails, from before the block"
    async with transaction(pool) as conn:
        asked = await ask_for_mail(
            conn, mail_id=new_id(), charge_id=UUID(doc.charge_id), account_id=account_id, to=None,
            note=None, attach_pdf=False, now=post.now, seal=SEAL,
        )  # fmt: skip
    assert asked == ("jana@example.com", "stopped")
    await post.pay(doc)
    await post.work()
    assert post.subjects("jana@example.com")[1:] == ["Pagamento recebido: R$ 150,00 para Açaí & Cia"]
    assert len(post.subjects("kai@example.com")) == 1
    assert {trouble for state, _, trouble in await post.states() if state == "skipped"} == {"blocked"}


async def test_a_mail_the_server_does_not_accept_is_retried_for_less_than_four_days_and_then_fails(post: Post) -> None:
    post.server.answers["RCPT"] = ["450 later"] * 100
    await post.pix("joana@example.com", lifetime=timedelta(days=20))
    await post.work()
    tries = 1
    for _ in range(2 * len(BACKOFF_S)):
        due_at = await post.context.pool.fetchval("SELECT due_at FROM mail WHERE state = 'waiting' AND kind = 'charge'")
        if due_at is None:
            break
        assert due_at > post.now
        await post.work_at(due_at)
        tries += 1
    assert tries == len(BACKOFF_S) + 1
    assert post.now - START < timedelta(days=4)
    assert (await post.states())[0] == ("failed", tries, "450")
    assert post.server.mails == []


async def test_a_mail_that_waits_behind_slow_ones_uses_up_no_attempt(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mail server that does not answer holds up every mail. A mail whose turn never came was not tried."""
    await post.pix("joao@example.com")
    await write_due_mails(post.context)
    monkeypatch.setattr(mail_worker, "ROUND_S", 0.0)
    for _ in range(2 * len(BACKOFF_S)):
        assert await post.worker.drain() == 1
    monkeypatch.undo()
    post.server.answers["RCPT"] = ["450 later"]
    await post.worker.drain()
    assert await post.states() == [("waiting", 1, "450")]
    await post.work_at(START + timedelta(seconds=2 * BACKOFF_S[0]))
    assert len(post.server.of("joao@example.com")) == 1


async def test_a_worker_that_stalled_past_its_round_does_not_send_the_mails_it_claimed(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker may have sent them by then."""
    await post.pix("joao@example.com")
    await write_due_mails(post.context)
    claim = mail_worker.claim

    async def claims(*given: Any, **more: Any) -> Any:
        claimed = await claim(*given, **more)
        time.sleep(0.3)
        return claimed

    with monkeypatch.context() as late:
        late.setattr(mail_worker, "claim", claims)
        late.setattr(mail_worker, "ROUND_S", 0.2)
        assert await post.worker.drain() == 1
    assert post.server.of("joao@example.com") == []
    await post.work()
    assert len(post.server.of("joao@example.com")) == 1


async def test_an_address_the_server_refuses_for_good_is_not_tried_again(post: Post) -> None:
    post.server.unknown.add("ninguem@example.com")
    await post.pix("ninguem@example.com")
    await post.pix("karen@example.com")
    await post.work()
    assert sorted(await post.states()) == [("failed", 1, "550"), ("sent", 1, None)]
    assert len(post.server.of("karen@example.com")) == 1


@pytest.mark.parametrize(
    "answers", [{"EHLO": ["DROP"]}, {"AUTH": ["535 no"]}, {"MAIL": ["421 busy"]}, {"DATA": ["DROP"]}]
)
async def test_a_failing_mail_server_delays_a_mail_and_does_not_lose_it(
    post: Post, answers: dict[str, list[str]]
) -> None:
    post.server.answers |= answers
    await post.pix("leo@example.com")
    await post.work()
    ((state, _, trouble),) = await post.states()
    assert state == "waiting"
    assert trouble
    await post.work_at(START + timedelta(minutes=2))
    assert len(post.server.of("leo@example.com")) == 1
    assert await post.states() == [("sent", 2, None)]


async def store_mails(post: Post, states: dict[str, int], at: datetime) -> None:
    """Store `states[state]` mails in each state, requested and last changed at this instant."""
    await post.context.pool.execute(
        "INSERT INTO mail (mail_id, account_id, charge_id, kind, to_sealed, to_hash, state, attempts, due_at,"
        " lease_until, created_at, sent_at)"
        " SELECT gen_random_uuid(), $1, gen_random_uuid(), 'asked', '', 'h', state, 1, $4::timestamptz,"
        " CASE WHEN state = 'sending' THEN $4::timestamptz END, $4, CASE WHEN state = 'sent' THEN $4::timestamptz END"
        " FROM unnest($2::text[], $3::integer[]) AS g (state, count), generate_series(1, count)",
        post.merchant.account_id, list(states), list(states.values()), at,
    )  # fmt: skip


async def test_ended_mails_are_deleted_in_portions_after_mail_kept_days_and_unsent_ones_are_not(
    pool: Pool, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.mail.sender._FORGOTTEN_MAX", 4)
    every = {"waiting": 1, "sending": 1, "sent": 6, "failed": 2, "skipped": 1}
    async with opened(pool, servers, MAIL_KEPT_DAYS="30") as post:
        await store_mails(post, every, post.now - timedelta(days=30, seconds=1))
        await store_mails(post, every, post.now - timedelta(days=29))
        assert [await forget_mails(post.context) for _ in range(4)] == [4, 4, 1, 0]
        left = Counter(state for state, *_ in await post.states())
        assert left == Counter(every) + Counter(waiting=1, sending=1)


async def test_a_deleted_mail_is_not_written_again(post: Post) -> None:
    doc = await post.pix("ana@example.com", lifetime=timedelta(days=500))
    await post.work()
    await post.work_at(START + timedelta(days=401))
    assert await forget_mails(post.context) == 1
    assert await post.states() == []
    await post.work_at(START + timedelta(days=402))
    assert len(post.subjects("ana@example.com")) == 1
    await post.pay(doc)
    await post.work()
    assert len(post.subjects("ana@example.com")) == 2, "the receipt is still sent"


async def test_a_mail_of_unknown_outcome_is_sent_again_with_the_same_message_id(post: Post) -> None:
    post.server.answers["DATA"] = ["DROP AFTER"]
    await post.pix("mara@example.com")
    await post.work()
    await post.work_at(START + timedelta(minutes=2))
    first, second = post.server.of("mara@example.com")
    assert first.message["Message-ID"] == second.message["Message-ID"]


async def test_a_mail_server_that_hangs_keeps_no_transaction_open_and_loses_no_mail(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.mail.smtp.READ_S", 2.0)
    post.server.answers["MAIL"] = ["HANG"]
    await post.pix("nina@example.com")
    await write_due_mails(post.context)
    sending = asyncio.create_task(post.worker.drain())

    async def hangs() -> bool:
        return not post.server.answers["MAIL"]

    await until_answer(hangs)
    open_ones = await post.context.pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND datname = current_database()"
    )
    assert open_ones == 0
    assert not sending.done()
    await sending
    await post.work_at(START + timedelta(minutes=2))
    assert await post.states() == [("sent", 2, None)]


async def test_the_mail_of_a_dead_worker_is_sent_once_its_lease_ends(post: Post) -> None:
    await post.pix("olga@example.com")
    await write_due_mails(post.context)
    async with post.context.pool.acquire() as conn:
        lost = await mail_worker.claim(conn, now=post.now, limit=10, lease=LEASE)
    assert len(lost) == 1
    await release_mails(post.context)
    await post.work()
    assert post.server.mails == []
    post.now += 2 * LEASE  # by a worker whose clock is ahead
    await release_mails(post.context)
    await post.work()
    assert post.server.mails == [], "the database's clock ends a lease"
    await post.context.pool.execute("UPDATE mail SET lease_until = now() WHERE state = 'sending'")
    await release_mails(post.context)

    async def store_late(conn: Any, attempts: int) -> None:
        """What a worker stores whose lease another worker has taken, or has ended."""
        late = {"mail_id": lost[0].mail_id, "attempts": attempts}
        await mail_worker.settle(
            conn, **late, state="failed", due_at=post.now, subject=None, trouble="late", sent_at=None
        )
        await mail_worker.put_back(conn, **late)

    async with post.context.pool.acquire() as conn:
        (taken,) = await mail_worker.claim(conn, now=post.now, limit=10, lease=LEASE)
        await store_late(conn, lost[0].attempts)
        assert await post.states() == [("sending", 2, None)]
        await mail_worker.put_back(conn, mail_id=taken.mail_id, attempts=taken.attempts)
        await post.work()
        await store_late(conn, 2)
    assert await post.states() == [("sent", 2, None)]
    assert len(post.server.of("olga@example.com")) == 1


async def test_two_workers_send_each_mail_once(post: Post) -> None:
    for n in range(30):
        await post.pix(f"q{n}@example.com")
    other = MailSender(post.context)
    await asyncio.gather(*(write_due_mails(post.context) for _ in range(4)))
    await asyncio.gather(post.worker.drain(), other.drain(), post.worker.drain())
    await post.work()
    assert sorted(mail.to[0] for mail in post.server.mails) == sorted(f"q{n}@example.com" for n in range(30))
    assert post.server.connections <= 12


async def test_a_webhook_notice_is_mailed_to_the_merchant_once_and_leaves_with_its_mail(post: Post) -> None:
    account_id = post.merchant.account_id
    async with transaction(post.context.pool) as conn:
        for number in range(PEOPLE_MAX - 1):
            await add_person(conn, account_id, f"a{number}.{account_id}@example.com", "support", None, now=post.now)
    notice = NewNotice(
        notice_id=new_id(), account_id=account_id, test=True, kind="webhook_paused",
        event_type="payment.received", endpoint_id=None,
        facts={"url": "https://loja.example.com/hook", "failing_since": iso(START), "failures": 9, "outcome": "status",
               "status": 500, "reason": "no_success"},
    )  # fmt: skip
    async with transaction(post.context.pool) as conn:
        await give_notice(conn, [notice], now=post.now)
    await write_due_mails(post.context)
    post.now = START + timedelta(days=401)
    assert await forget_mails(post.context) == 0, "its mail is still to be sent"
    post.now = START
    await post.work()
    await post.work_at(START + timedelta(days=1))
    assert len({mail.to[0] for mail in post.server.mails}) == len(post.server.mails) == PEOPLE_MAX
    (taken,) = post.server.of(post.merchant.dashboard.email)
    assert post.subjects(post.merchant.dashboard.email) == ["[TESTE/SANDBOX] Seu webhook foi pausado"]
    text = taken.part("plain")
    assert "[TESTE/SANDBOX] payment.received" in text
    assert "https://loja.example.com/hook" in text
    assert "HTTP 500" in text
    assert taken.message["List-Unsubscribe"] is None
    assert "último aviso" not in text
    await post.work_at(START + timedelta(days=401))
    assert [await forget_mails(post.context) for _ in range(2)] == [PEOPLE_MAX + 1, 0]
    assert await post.context.pool.fetchval("SELECT count(*) FROM notice") == 0


async def test_the_last_notice_of_a_day_says_that_it_is_the_last(post: Post) -> None:
    several = [
        NewNotice(notice_id=new_id(), account_id=post.merchant.account_id, test=False, kind="webhook_failing",
                  event_type="payment.received", endpoint_id=new_id(), facts={"failures": 5, "outcome": "timeout"})
    ] * (A_DAY_MAX + 1)  # fmt: skip
    several = [replace(each, notice_id=new_id()) for each in several]
    async with transaction(post.context.pool) as conn:
        await give_notice(conn, several, now=post.now)
    await post.work()
    texts = [mail.part("plain") for mail in post.server.of(post.merchant.dashboard.email)]
    assert len(texts) == A_DAY_MAX
    assert sum("É o último aviso deste tipo por hoje" in text for text in texts) == 1


async def test_text_from_a_merchant_or_payer_cannot_inject_a_mail_header(post: Post) -> None:
    await post.context.pool.execute(
        "UPDATE account SET name = $2 WHERE account_id = $1", post.merchant.account_id, "Loja\x1b\r\nBcc: x@example.com"
    )
    await post.pix("rui@example.com")
    await post.pix('"rui,b"@exa(mple.com')
    await post.pix("rui@example.com,x")
    await post.work()
    (taken,) = post.server.mails
    assert taken.to == ["rui@example.com"]
    assert taken.message["Bcc"] is None
    headers = taken.raw.partition(b"\r\n\r\n")[0]
    assert b"\x1b" not in headers
    assert str(taken.message["From"]) == '"Loja Bcc: x@example.com via Quita" <cobrancas@quita.example.com>'
    assert sorted(state for state, _, _ in await post.states()) == ["failed", "failed", "sent"]


async def test_mails_wait_while_neither_a_mail_server_nor_a_catcher_is_set(pool: Pool, servers: Any) -> None:
    async with opened(pool, servers, SMTP_URL="") as post:
        await post.pix("sara@example.com")
        await post.work()
        assert await post.states() == [("waiting", 0, None)]


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://a:b%40c@mail.example.com?starttls=1",
         SmtpServer(host="mail.example.com", port=587, user="a", password="b@c", starttls=True)),
        ("smtps://mail.example.com", SmtpServer(host="mail.example.com", port=465, tls=True)),
        ("smtp://localhost:2525", SmtpServer(host="localhost", port=2525)),
    ],
)  # fmt: skip
def test_the_mail_server_is_read_from_smtp_url(url: str, server: SmtpServer) -> None:
    settings = settings_for(SMTP_URL=url, MAIL_FROM="x@example.com", MAIL_CATCHER="1")
    assert settings.smtp == server
    assert not settings.mail_catcher
    assert "b@c" not in repr(settings) + repr(settings.smtp)


@pytest.mark.parametrize(
    "env",
    [
        {"SMTP_URL": "mail.example.com"}, {"SMTP_URL": "http://mail.example.com"}, {"SMTP_URL": "smtp://"},
        {"SMTP_URL": "smtp://h:99999"}, {"SMTP_URL": "smtp://h?tls=1"}, {"SMTP_URL": "smtps://h?starttls=1"},
        {"SMTP_URL": "smtp://h", "MAIL_FROM": ""}, {"SMTP_URL": "smtp://h", "MAIL_FROM": "Quita <x@example.com>"},
    ],
    ids=str,
)  # fmt: skip
def test_an_invalid_mail_setting_is_refused_at_start(env: dict[str, str]) -> None:
    given = {
        "DATABASE_URL": "d",
        "REDIS_URL": "redis://r",
        "SECRET_KEY": SECRET_KEY,
        "MAIL_FROM": "x@example.com",
        **env,
    }
    with pytest.raises(ValueError, match=r"SMTP_URL|MAIL_FROM"):
        read_settings(given)


# Mails that a merchant requests


async def request_mail(post: Post, doc: ChargeDoc, to: str | None = None) -> str:
    """Request a mail as a merchant does; return `queued`, `stopped`, or the code of the refusal."""
    try:
        async with transaction(post.context.pool) as conn:
            _, state = await ask_for_mail(
                conn, mail_id=new_id(), charge_id=UUID(doc.charge_id), account_id=post.merchant.account_id, to=to,
                note=None, attach_pdf=False, now=post.now, seal=SEAL,
            )  # fmt: skip
        return state
    except Refused as refused:
        return f"{refused.code.name} {' '.join(refused.fields or {})}".strip()


async def test_requested_mails_are_limited_per_day_to_one_address_and_per_hour_about_one_charge(post: Post) -> None:
    charges = [await post.pix(None) for _ in range(3)]
    for number in range(ASKED_TO_MAX):
        assert await request_mail(post, charges[number % 3], "Ana@example.com") == "queued"
    assert await request_mail(post, charges[0], "ana@example.com") == "RATE_LIMITED"
    assert await request_mail(post, charges[0], "bia@example.com") == "queued"
    post.now += ASKED_DAY
    assert await request_mail(post, charges[0], "ana@example.com") == "queued"
    for number in range(1, ASKED_MAX):
        assert await request_mail(post, charges[0], f"{number}@example.com") == "queued"
    assert await request_mail(post, charges[0], "0@example.com") == "RATE_LIMITED", "of one charge in an hour"
    post.now += ASKED_IN
    assert await request_mail(post, charges[0], "0@example.com") == "queued"


async def test_requested_mails_of_an_account_are_limited_per_day_over_all_addresses(post: Post) -> None:
    doc = await post.pix(None)
    await post.context.pool.execute(
        "INSERT INTO mail (mail_id, account_id, charge_id, kind, to_sealed, to_hash, state, due_at, created_at)"
        " SELECT gen_random_uuid(), $1, gen_random_uuid(), 'asked', '', n::text, 'sent', $2, $2"
        " FROM generate_series(2, $3) AS n",
        post.merchant.account_id, post.now, ASKED_OF_ACCOUNT_MAX,
    )  # fmt: skip
    assert await request_mail(post, doc, "a@example.com") == "queued"
    assert await request_mail(post, doc, "b@example.com") == "RATE_LIMITED"


async def test_an_account_not_approved_can_request_mails_to_the_payer_only(post: Post) -> None:
    doc, addressless = await post.pix("payer@example.com"), await post.pix(None)
    await post.context.pool.execute(
        "UPDATE account SET kyc = 'pending' WHERE account_id = $1", post.merchant.account_id
    )
    assert await request_mail(post, doc, "another@example.com") == "VALIDATION_ERROR to"
    assert await request_mail(post, doc, "Payer@example.com") == "queued"
    assert await request_mail(post, doc) == "queued"
    assert await request_mail(post, addressless, "another@example.com") == "VALIDATION_ERROR to"


async def test_a_description_with_a_link_is_left_out_of_the_mail(post: Post) -> None:
    doc = await post.pix("payer@example.com")
    for description, shown in (("Mensalidade 10.2026", True), ("veja golpe.example/x", False)):
        letter = charge_letter(
            replace(doc, description=description), kind="charge", merchant="Loja", link="https://app.example.com/pagar/x",
            note=None, about_day=date(1970, 1, 1), now=post.now,
        )  # fmt: skip
        assert letter is not None
        assert (("Descrição", description) in letter.facts) == shown
