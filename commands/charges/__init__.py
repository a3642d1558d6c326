"""Commands about charges: created, changed, ended, paid."""
