"""The payer's page, open to anyone with the link.

The page is complete without scripts. With scripts it follows `/eventos`, or polls `/estado` every few seconds when
there is no stream, and replaces its middle with `/fragmento` after a change.
"""

import asyncio
import re
from datetime import date, timedelta
from typing import Any

from litestar import Request, get, post
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Redirect, Response
from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send
from msgspec import Struct

from banks.choice import agreement_of
from commands.charges.second_copy import ask_second_copy
from domain.boleto.itf import QUIET_MODULES, bars
from domain.boleto.terms import AmountDue, last_day
from domain.brazilian import brl, signed_brl
from domain.charge import NEXT, Anomaly, Status
from domain.instants import day_ends, day_of, iso, to_millisecond
from domain.pix.qr import png_data_uri, side
from readmodels.charges.boleto import boleto_of_link
from readmodels.charges.conditions import CONDITIONS, conditions
from readmodels.charges.payer_page import PageState, PayerPage, is_public_id, payer_page
from runtime.limits.addresses import client_key
from runtime.postgres import session, transaction
from web.context import spend
from web.head import parameter_in
from web.languages import LANGUAGES, PayerLanguage, language_of
from web.live import LOOK_S_MAX, Live, TooManyStreams, send_events
from web.pages import page
from web.security_headers import WITH_FORM

# fmt: off
# Each status on the page: its heading, and its announcement for screen readers.
WORDS: dict[Status, tuple[str, str]] = {
    Status.PENDING:   ("Aguardando pagamento", "Aguardando pagamento."),
    Status.PAID:      ("Pagamento confirmado", "Pagamento confirmado. O comprovante está nesta página."),
    Status.EXPIRED:   ("Esta cobrança venceu", "Esta cobrança venceu. Não pague com este código."),
    Status.CANCELLED: ("Cobrança cancelada", "Esta cobrança foi cancelada. Não pague com este código."),
    Status.REFUNDED:  ("Pagamento devolvido", "O pagamento desta cobrança foi devolvido."),
    Status.FAILED:    ("Cobrança não concluída", "Não foi possível concluir esta cobrança."),
}
# fmt: on
# The texts about an anomalous payment, shown to the payer, without the reason.
ANOMALY_WORDS: dict[Anomaly, str] = {
    Anomaly.DUPLICATE: "Esta cobrança foi paga mais de uma vez. {merchant} pode devolver o que foi pago a mais.",
    Anomaly.PAID_AFTER_CANCEL: "Chegou um pagamento depois do fim desta cobrança. {merchant} pode devolvê-lo.",
    Anomaly.AMOUNT_MISMATCH: "Chegou um pagamento de outro valor, que não quita esta cobrança. Fale com {merchant}.",
}
EXCESS_WORDS = "Foi pago mais do que o valor cobrado. {merchant} pode devolver a diferença."
SUSPENDED = ("Cobrança suspensa", "Esta cobrança está suspensa. Não pague com este código.")
# Shown in place of the PDF of a boleto that can no longer be paid: what happened, and what to do.
BOLETO_WORDS: dict[Status, tuple[str, str]] = {
    Status.PAID: ("Este boleto já foi pago", "Não pague de novo. O comprovante está na página da cobrança."),
    Status.EXPIRED: ("Este boleto venceu", "Ele não pode mais ser pago. A página da cobrança diz o que fazer."),
    Status.CANCELLED: ("Este boleto foi cancelado", "Não o pague. A página da cobrança diz mais."),
    Status.REFUNDED: ("O pagamento deste boleto foi devolvido", "Não pague de novo. A página da cobrança diz mais."),
    Status.FAILED: ("Este boleto não foi registrado", "Não o pague. A página da cobrança diz o que fazer."),
}
SUSPENDED_BOLETO = ("Este boleto está suspenso", "Não o pague agora. A página da cobrança diz mais.")
_CHARGE_PAGE = "Abrir a página da cobrança"
# The texts of payer.js, by their names there; {left} is a number or a time.
SCRIPT_WORDS: dict[str, str] = {
    "redated": "O vencimento mudou, e com ele os códigos para pagar.",
    "minute": "Falta 1 minuto para o vencimento.",
    "minutes": "Faltam 5 minutos para o vencimento.",
    "days": "Expira em {left} dias",
    "time": "Expira em {left}",
    "uncopied": "Não foi possível copiar. O código está selecionado: copie com o menu do seu aparelho.",
    "copied": "Cole no aplicativo do seu banco.",
}
# The preview of a link that is sent to somebody; below, the kinds of days on which banks are closed.
_PAY_UNTIL = "Pague com {way} até {until}."
_PAY = "Pague com {way}."
_OR = " ou "
_AMOUNT_TO_MERCHANT = "{amount} para {merchant}"
# The parts of the amount to pay today.
_AMOUNT_PARTS = ("Valor do documento", "Multa", "Juros", "Desconto até {day}")
# Parts of a copy-and-paste code within which no line may end: words joined by blanks (in the merchant's name and city)
# or hyphens (in the location). Text copied from a PDF of the page loses a blank at a line's end, and a hyphen there is
# taken for that of a divided word.
_UNBREAKABLE = re.compile(r"(\S(?:[ -]+\S)+)")
_WEEKEND_DAYS = {5: "um sábado", 6: "um domingo"}
_HOLIDAY = "um feriado bancário"
SENTENCES = (
    *(each for words in (*WORDS.values(), SUSPENDED) for each in words),
    *(each for words in (*BOLETO_WORDS.values(), SUSPENDED_BOLETO) for each in words), _CHARGE_PAGE,
    *ANOMALY_WORDS.values(), EXCESS_WORDS, *SCRIPT_WORDS.values(),
    _PAY_UNTIL, _PAY, _OR, _AMOUNT_TO_MERCHANT, *_WEEKEND_DAYS.values(), _HOLIDAY, *_AMOUNT_PARTS, *CONDITIONS,
)  # fmt: skip
"""All sentences of the page that this module holds; each is translated in templates/payer.toml."""


def _is_final(status: Status) -> bool:
    """Whether a page may stop polling. An expired charge is not settled: it becomes paid when the bank reports late."""
    return Status.PAID not in NEXT[status].values()


@get("/pagar/{public_id:str}")
async def show(request: Request[Any, Any, Any], public_id: FromPath[str]) -> Response[str]:
    charge = await _payer_page(request, public_id)
    # WITH_FORM, because the open page may change to a state that has a form.
    return page("payer.html", _page_values(charge, request, public_id), headers=WITH_FORM)


@get("/pagar/{public_id:str}/fragmento")
async def show_fragment(request: Request[Any, Any, Any], public_id: FromPath[str]) -> Response[str]:
    return page("payer_state.html", _page_values(await _payer_page(request, public_id), request, public_id))


@get("/pagar/{public_id:str}/estado")
async def show_state(request: Request[Any, Any, Any], public_id: FromPath[str]) -> dict[str, str | int]:
    charge = await _payer_page(request, public_id)
    return {"status": charge.status.value, "version": charge.version}


@get("/pagar/{public_id:str}/boleto.pdf")
async def show_boleto(request: Request[Any, Any, Any], public_id: FromPath[str]) -> Response[bytes] | Response[str]:
    """The boleto as a PDF, only while it can be paid: the PDF has the payer's name, document and address, and any
    holder of the link can open it. Unknown links and charges without a boleto get the same 404. A boleto that can no
    longer be paid, or whose merchant is blocked, gets a 404 that says so and links to the charge's page."""
    spend(request, "pdfs_per_min")
    state = request.app.state
    async with session(state.pool) as conn:
        boleto = await boleto_of_link(
            conn, public_id, seal=state.context.seal, settings=state.settings, now=state.now()
        )
        charge = await payer_page(conn, public_id, now=state.now()) if boleto is None or boleto.void else None
    if charge is not None and (words := _void_texts(charge, printed=boleto is not None)):
        return _void_boleto_page(request, public_id, charge, words)
    if boleto is None or boleto.void is not None:
        raise NotFoundException
    # ASCII without blanks or quotes: RFC 6266's plain form is enough.
    headers = {"Content-Disposition": f'inline; filename="{boleto.file_name}"'}
    return Response(await state.printer.printed(boleto), headers=headers, media_type="application/pdf")


def _void_texts(charge: PayerPage, *, printed: bool) -> tuple[str, str] | None:
    """Why there is no PDF to pay with; None for a charge that is no boleto. `printed`: whether the charge has a
    boleto that could be printed."""
    if printed:
        return BOLETO_WORDS.get(charge.status)
    return SUSPENDED_BOLETO if charge.suspended and charge.due_date is not None else None


def _void_boleto_page(
    request: Request[Any, Any, Any], public_id: str, charge: PayerPage, texts: tuple[str, str]
) -> Response[str]:
    words = language_of(parameter_in(request.scope, "lang"))
    title, text = map(words.say, texts)
    values = {
        "charge": charge, "words": words, "languages": tuple(LANGUAGES.values()), "title": title, "text": text,
        "path": f"/pagar/{public_id}/boleto.pdf", "charge_page": f"/pagar/{public_id}{words.query}",
        "charge_page_text": words.say(_CHARGE_PAGE),
    }  # fmt: skip
    return page("payer_boleto.html", values, status=404)


@post("/pagar/{public_id:str}/segunda-via")
async def ask_again(request: Request[Any, Any, Any], public_id: FromPath[str]) -> Redirect:
    """Tells the merchant that a payer wants a new boleto. The page shows whether the merchant was told; a request that
    is not allowed now gets no other answer. Any holder of the link may ask, because the form takes no input and the
    request issues nothing."""
    charge = await _payer_page(request, public_id)
    spend(request, "second_copies_per_min")
    state = request.app.state
    if charge.second_copy is not None and charge.second_copy.may_be_asked:
        async with transaction(state.pool) as conn:
            now = to_millisecond(state.now())
            await ask_second_copy(conn, public_id, today=_today(charge), account_now=charge.now, now=now)
    return Redirect(f"/pagar/{public_id}{language_of(parameter_in(request.scope, 'lang')).query}", status_code=303)


@get("/pagar/{public_id:str}/eventos")
async def show_events(request: Request[Any, Any, Any], public_id: FromPath[str]) -> ASGIApp:
    """The charge's status as server-sent events (web/live.py): `estado` with the current state and after each change,
    `vivo` as a heartbeat. 503 when there are too many streams; the page then polls."""
    if not is_public_id(public_id):
        raise NotFoundException
    spend(request, "pages_per_min")
    address = client_key(request.scope, request.app.state.settings)
    live: Live = request.app.state.live

    async def stream(_: Scope, receive: Receive, send: Send) -> None:
        await _stream(live, public_id, address, receive, send)

    return stream


PAYER_HANDLERS: list[ControllerRouterHandler] = [
    show, show_fragment, show_state, show_events, show_boleto, ask_again,
]  # fmt: skip


async def _stream(live: Live, public_id: str, address: str, receive: Receive, send: Send) -> None:
    async def start_answer(status: int, *headers: tuple[bytes, bytes]) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [*headers]})

    async def send_chunk(chunk: bytes, *, more: bool = True) -> None:
        await send({"type": "http.response.body", "body": chunk, "more_body": more})

    try:
        async with live.page(public_id, address=address) as page:
            if await page.first() is None:
                raise NotFoundException
            # x-accel-buffering: proxies must pass each event on at once, without buffering the answer.
            stream_headers = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))
            await start_answer(200, *stream_headers)
            disconnect = asyncio.create_task(_wait_for_disconnect(receive))
            disconnect.add_done_callback(lambda _: page.end())
            try:
                await send_events(page, send_chunk, settled=_is_final_state)
                await send_chunk(b"", more=False)
            except TimeoutError:
                return  # the client stopped reading; the server closes the unfinished answer
            finally:
                disconnect.cancel()
    except TooManyStreams:
        await start_answer(503, (b"retry-after", b"%d" % LOOK_S_MAX), (b"content-length", b"0"))
        await send_chunk(b"", more=False)


async def _wait_for_disconnect(receive: Receive) -> None:
    """Returns when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _is_final_state(seen: PageState) -> bool:
    return _is_final(seen.status)


async def _payer_page(request: Request[Any, Any, Any], public_id: str) -> PayerPage:
    spend(request, "pages_per_min")
    state = request.app.state
    async with session(state.pool) as conn:
        charge = await payer_page(conn, public_id, now=state.now())
    if charge is None:
        raise NotFoundException
    return charge


def _page_values(charge: PayerPage, request: Request[Any, Any, Any], public_id: str) -> dict[str, object]:
    words = language_of(parameter_in(request.scope, "lang"))
    heading, announcement = map(words.say, SUSPENDED if charge.suspended else WORDS[charge.status])
    payable = charge.status is Status.PENDING and not charge.suspended
    path = f"/pagar/{public_id}"
    # One amount for the page, its title, its preview and the shared text of a receipt.
    shown_cents = charge.asked.total_cents if payable else _outcome_cents(charge)
    amount_title = words.say(_AMOUNT_TO_MERCHANT).format(amount=brl(shown_cents), merchant=charge.merchant)
    return {
        "charge": charge,
        "words": words,
        "languages": tuple(LANGUAGES.values()),
        "script_words": {name: words.say(text) for name, text in SCRIPT_WORDS.items()},
        "path": path,
        "here": path + words.query,
        # Printed on a receipt, as the address where it can be checked.
        "address": f"{request.app.state.settings.app_url}{path}",
        "origin": request.app.state.settings.app_url,
        "preview_title": amount_title,
        "preview_text": _preview(charge, heading, words),
        "anomaly_words": _anomaly_words(charge, words),
        "heading": heading,
        "announcement": announcement,
        "title": f"{heading} – {amount_title}",
        "settled": _is_final(charge.status),
        # A code that can no longer be paid is not shown.
        "qr_image": png_data_uri(charge.qr_code) if payable and charge.qr_code else None,
        # Every second part is a match of _UNBREAKABLE, within which no line may end.
        "code_parts": _UNBREAKABLE.split(charge.qr_code) if payable and charge.qr_code else [],
        "qr_side": side(charge.qr_code) if payable and charge.qr_code else 0,
        "bars": _barcode_drawing(charge.codigo_barras) if payable and charge.codigo_barras else None,
        "closed": _bank_closure(charge, words),
        "ended_on": _ended_on(charge),
        "shown_cents": shown_cents,
        "parts": _amount_parts(charge.amount_cents, charge.asked, words) if payable else [],
        "conditions": _condition_sentences(charge, words) if payable else [],
        "pay_until": _last_day_when_late(charge),
        "pix_until": words.moment_near(charge.pix_expires_at, now=charge.now) if charge.pix_expires_at else None,
        "nosso_numero": _printed_number(charge, request),
        "expires_text": words.moment_near(charge.expires_at, now=charge.now) if charge.expires_at else None,
        "expires_iso": iso(charge.expires_at) if charge.expires_at else None,
        "now_iso": iso(charge.now),
        # When the page changes although the charge does not: the PIX expires before the boleto, or the amount changes.
        "changes_iso": _next_change_iso(charge) if payable else None,
    }


def _outcome_cents(charge: PayerPage) -> int:
    paid_cents = charge.payment.amount_cents if charge.payment else None
    return paid_cents or charge.amount_cents


def _anomaly_words(charge: PayerPage, words: PayerLanguage) -> str:
    if charge.anomaly is None:
        return ""
    text = EXCESS_WORDS if charge.excess else ANOMALY_WORDS[charge.anomaly]
    return words.say(text).format(merchant=charge.merchant)


def _next_change_iso(charge: PayerPage) -> str | None:
    if charge.terms is not None:
        return iso(day_ends(_today(charge)))  # the amount to pay depends on the day
    return iso(charge.pix_expires_at) if charge.qr_code and charge.pix_expires_at else None


def _printed_number(charge: PayerPage, request: Request[Any, Any, Any]) -> str | None:
    """The nosso numero of the paid boleto, as printed on it and on the receipt of the payer's bank."""
    if charge.payment is None or charge.payment.nosso_numero is None or charge.paid_bank is None:
        return None
    return agreement_of(request.app.state.settings, charge.paid_bank).printed_number(charge.payment.nosso_numero)


def _amount_parts(amount_cents: int, owed: AmountDue, words: PayerLanguage) -> list[tuple[str, str]]:
    """The parts of today's amount; empty when it equals the charge's amount."""
    if owed.total_cents == amount_cents:
        return []
    cents = (amount_cents, owed.fine_cents, owed.interest_cents, -owed.discount_cents)
    until = "" if owed.discount_until is None else words.day(owed.discount_until)
    return [
        (words.say(name).format(day=until), signed_brl(each))
        for name, each in zip(_AMOUNT_PARTS, cents, strict=True)
        if each
    ]


def _condition_sentences(charge: PayerPage, words: PayerLanguage) -> list[str]:
    if charge.terms is None or charge.due_date is None:
        return []
    applicable = conditions(charge.terms, amount_cents=charge.amount_cents, due=charge.due_date, on=_today(charge))
    return [
        each.said(words.say(each.text), day=words.day(each.day), percent=words.percent(each.percent_bps))
        for each in applicable
    ]


def _today(charge: PayerPage) -> date:
    return day_of(charge.now)


def _last_day_when_late(charge: PayerPage) -> date | None:
    """The last day to pay, once the due date has passed."""
    if charge.due_date is None or charge.effective_due_date is None or _today(charge) <= charge.effective_due_date:
        return None
    return last_day(charge.terms, charge.due_date)


def _ended_on(charge: PayerPage) -> date | None:
    """The last day on which a boleto could be paid."""
    if charge.due_date is None or charge.expires_at is None:
        return charge.effective_due_date
    return day_of(charge.expires_at - timedelta(microseconds=1))


def _preview(charge: PayerPage, heading: str, words: PayerLanguage) -> str:
    """The preview text of a link: how the charge can be paid and until when, or its outcome."""
    if charge.status is not Status.PENDING or charge.suspended:
        return f"{heading}."
    ways = [name for name, code in (("Pix", charge.qr_code), ("boleto", charge.codigo_barras)) if code]
    way = words.say(_OR).join(ways)
    if charge.due_date is not None:
        return words.say(_PAY_UNTIL).format(way=way, until=words.day(_last_day_when_late(charge) or charge.due_date))
    if charge.expires_at is not None:
        return words.say(_PAY_UNTIL).format(way=way, until=words.moment_near(charge.expires_at, now=charge.now))
    return words.say(_PAY).format(way=way)


class Drawing(Struct, frozen=True):
    """A barcode as an SVG path, `width` wide (quiet zones included) and 1 high."""

    width: int
    path: str


def _barcode_drawing(barcode: str) -> Drawing:
    bar_spans, modules = bars(barcode)
    path = "".join(f"M{QUIET_MODULES + offset} 0h{width}v1h-{width}z" for offset, width in bar_spans)
    return Drawing(modules + 2 * QUIET_MODULES, path)


def _bank_closure(charge: PayerPage, words: PayerLanguage) -> str | None:
    """The kind of day the due date is, if banks are closed on it as decided when the boleto was issued; else None."""
    if charge.due_date is None or charge.effective_due_date in (None, charge.due_date):
        return None
    return words.say(_WEEKEND_DAYS.get(charge.due_date.weekday(), _HOLIDAY))
