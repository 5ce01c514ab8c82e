"""What `guard-eval generate` does, engine by engine."""
