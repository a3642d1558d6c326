"""Commands about webhooks: the endpoint, what is sent again, the notices about it."""
