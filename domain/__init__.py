"""The product's rules: money, documents, BR Codes, the life of a charge, events. No I/O, no clock, no randomness."""
