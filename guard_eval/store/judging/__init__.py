"""The part of the store for language models as raters: runs, requests, budgets and responses."""
