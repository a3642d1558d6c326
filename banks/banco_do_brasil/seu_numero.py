"""Seu numero: the merchant's reference of a boleto, printed on it and sent to the bank.

Banco do Brasil accepts 1 to 15 of `A-Z 0-9 - '` and blank (Cobrancas v2, numeroTituloBeneficiario).
"""

import re

_FITS = re.compile(r"[A-Z0-9'-](?:[A-Z0-9' -]{0,13}[A-Z0-9'-])?")


def seu_numero(external_id: str | None, *, control: int) -> str:
    """Return the merchant's own reference if it fits unchanged, else our control number. A cut or folded reference
    might be the same for two boletos."""
    if external_id is not None and _FITS.fullmatch(external_id):
        return external_id
    return str(control)
