"""The JSON of received PIX and devolucoes in API Pix v2, with Banco do Brasil's additions."""

from collections.abc import Sequence
from typing import Any

from banks.simulated.bank import BookedPix
from banks.simulated.returns import BookedReturn, BookedTransfer, SimulatedReturns
from domain.instants import iso
from domain.money import reais


def shown_pix(pix: BookedPix, returns: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "endToEndId": pix.end_to_end_id,
        "valor": "" if pix.garbled else reais(pix.amount_cents),
        "componentesValor": _parts(pix),
        "horario": iso(pix.paid_at),
        "pagador": {"cpf": pix.payer_document, "nome": pix.payer_name},
    }
    if pix.txid is not None:
        shown["txid"] = pix.txid
    if pix.pix_key is not None:
        shown["chave"] = pix.pix_key
    if returns:
        shown["devolucoes"] = list(returns)
    return shown


def _parts(pix: BookedPix) -> dict[str, Any]:
    original_cents = pix.amount_cents - pix.interest_cents - pix.fine_cents + pix.discount_cents
    added = {"juros": pix.interest_cents, "multa": pix.fine_cents, "desconto": pix.discount_cents}
    return {
        "original": {"valor": reais(original_cents)},
        **{name: {"valor": reais(cents)} for name, cents in added.items() if cents},
    }


def shown_return(returns: SimulatedReturns, booked: BookedReturn) -> dict[str, Any]:
    shown = shown_sent(returns, booked, done="DEVOLVIDO")
    return {"rtrId": booked.return_id, "natureza": booked.natureza, **shown}


def shown_sent(returns: SimulatedReturns, booked: BookedReturn | BookedTransfer, *, done: str) -> dict[str, Any]:
    """Return a devolucao or transfer as JSON. `done` is the bank's status for money that arrived."""
    status = returns.status(booked)
    times = {"solicitacao": iso(booked.asked_at)}
    if status == "DONE":
        times["liquidacao"] = iso(booked.settles_at)
    shown: dict[str, Any] = {
        "id": booked.id,
        "valor": reais(booked.amount_cents),
        "horario": times,
        "status": done if status == "DONE" else status,
    }
    if booked.description is not None:
        shown["descricao"] = booked.description
    if (why := returns.why_not(booked)) is not None:
        shown["motivo"] = why
    return shown
