"""All that can be asked for, a file each; the only code that changes a charge or moves money."""
