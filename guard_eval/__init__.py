"""Find out which way of decoding a language model writes better text, and how sure we are."""
