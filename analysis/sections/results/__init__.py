"""Sections about the results: win shares, rankings, and the influences on both."""
