"""The routes of /v1, a file per resource. ROUTES is the table of contents."""
