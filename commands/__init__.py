"""The commands, one file for each; the only code that changes a charge or moves money."""
