"""Request bodies: strict reading, shared fields, payers, payment terms, and redaction for the request log."""
