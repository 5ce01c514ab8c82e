"""Publish a study: a page with its plan or description, and its data without the raters' identities."""
