"""The boleto PDF and e-mail messages."""
