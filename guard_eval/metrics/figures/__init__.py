"""Figures of metrics and of how a strategy adapted."""
