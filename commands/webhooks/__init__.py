"""Commands about webhooks: the endpoint, redelivery, and notices about failures."""
