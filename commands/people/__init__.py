"""Commands about people and programs with access: accounts of people, sessions, credentials, the audit log."""
