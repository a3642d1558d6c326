"""Boletos: barcode and line, the numbers on them, bank business days."""
