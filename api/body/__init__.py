"""Bodies of requests: read strictly, their fields and payers."""
