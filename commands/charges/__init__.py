"""Commands about charges: create, change, end and pay them."""
