"""The merchant's profile on the payer page: contact and logo."""
