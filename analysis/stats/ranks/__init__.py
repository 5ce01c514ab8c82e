"""Ranking of three or more methods: strengths, their bootstrap, and ranks that hold all at once."""
