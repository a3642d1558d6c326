"""Commands about people and programs with access: people, sessions, credentials, the audit log."""
