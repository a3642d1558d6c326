"""What decides about merchants themselves."""
