"""Sections on the raters: people, judges, how they agree, and what influences them."""
