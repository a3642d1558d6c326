"""The public documentation, in English and Portuguese: guides, the API's reference, events, errors, downloads."""
