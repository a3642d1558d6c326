"""The routes of /v1, one file per resource; each file lists its routes in ROUTES."""
