"""The work that no request does: bank orders, webhooks, mail, sweeps. PostgreSQL holds what is due; a wake-up only says
when to look."""
