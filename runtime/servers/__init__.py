"""Which of several servers is asked, and what of their answers is taken."""
