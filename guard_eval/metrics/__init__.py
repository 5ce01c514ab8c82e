"""Automatic metrics, one subject a file; `coherence` alone needs torch."""
