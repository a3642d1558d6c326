"""Pages about charges and schedules."""
