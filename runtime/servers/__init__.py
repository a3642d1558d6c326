"""The servers that processes ask: which of several is asked, and which of their answers are taken."""
