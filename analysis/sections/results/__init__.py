"""Sections on the results: win shares, rankings, and what they depend on."""
