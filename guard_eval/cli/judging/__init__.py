"""What `guard-eval judge` does."""
