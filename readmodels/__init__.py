"""All that can be seen, a file each."""
