"""Decoding on one machine with transformers."""
