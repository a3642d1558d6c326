"""The door for merchants' programs: the /v1 API."""
