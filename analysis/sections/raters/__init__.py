"""Sections about the raters: people, judges, their agreement, and the influences on their verdicts."""
