"""Ranking of three or more methods: strengths, and sets of possible ranks."""
