"""Bodies of requests: read strictly, their fields and payers, and what is kept of them."""
