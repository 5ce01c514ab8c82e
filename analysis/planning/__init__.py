"""Compute how many items and raters a study needs."""
