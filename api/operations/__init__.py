"""What a process does for many requests together: charges looked up and changed, PIX, boletos, money moved."""
