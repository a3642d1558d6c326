"""Which of several servers is asked."""
