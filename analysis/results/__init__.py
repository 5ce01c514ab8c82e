"""Result rows from verdicts: one question a module."""
