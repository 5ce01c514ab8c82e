"""Judges: beside people, in place of more people, and what they were asked."""
