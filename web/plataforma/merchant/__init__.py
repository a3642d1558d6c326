"""What staff do about one merchant, on its page."""
