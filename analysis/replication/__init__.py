"""Replicate the paper's tables and figures: run its experiments as studies, and compare its figures."""
