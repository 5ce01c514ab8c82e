"""What `guard-eval measure` does."""
