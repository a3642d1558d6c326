"""What is held of payers: read out, and erased."""
