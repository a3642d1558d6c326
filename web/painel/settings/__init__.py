"""Pages about webhooks, credentials, people and the audit log."""
