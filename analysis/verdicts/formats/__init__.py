"""Verdicts that were made elsewhere: one reader a format, and what finds the reader of a file."""
