"""Boletos: barcode and linha digitavel, payment terms, second copies, bank business days."""
