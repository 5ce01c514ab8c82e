"""Figures of metrics and of traces."""
