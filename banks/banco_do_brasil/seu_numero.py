"""Seu numero: what a boleto is called by its merchant, printed on it and told to the bank.

Banco do Brasil takes 1 to 15 of `A-Z 0-9 - '` and blank (Cobrancas v2, numeroTituloBeneficiario).
"""

import re

_FITS = re.compile(r"[A-Z0-9'-](?:[A-Z0-9' -]{0,13}[A-Z0-9'-])?")


def seu_numero(external_id: str | None, *, control: int) -> str:
    """The merchant's own reference where it fits as it is, else our control number: never a reference cut or folded,
    which two boletos could share."""
    if external_id is not None and _FITS.fullmatch(external_id):
        return external_id
    return str(control)
