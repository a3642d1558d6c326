"""PIX: the BR Code and its QR symbol."""
