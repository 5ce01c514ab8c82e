"""Rank three or more methods: strengths, and sets of possible ranks."""
