"""Find out which decoding strategy writes better text, and how sure we are."""
