"""Verdicts that were made elsewhere: one reader for each format, and what finds the reader of a file."""
