"""What the bank tells, and what it is asked on the workers' own initiative: hints, payments, reconciliation."""
