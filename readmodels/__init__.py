"""Everything that is read: one file for each list, record, report and page."""
