"""Actions of staff on the page of one merchant, and the list of merchants."""
