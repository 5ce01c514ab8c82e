"""What `guard-eval db` does."""
