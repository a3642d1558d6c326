"""When a schedule charges, and when a payer is reminded."""
