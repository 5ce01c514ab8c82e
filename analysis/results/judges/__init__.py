"""Judges: beside people, assisting people, and how they were asked."""
