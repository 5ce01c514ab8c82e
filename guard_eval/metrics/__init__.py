"""Automatic metrics of texts. Each file has one subject."""
