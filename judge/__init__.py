"""Let a language model rate pairs like a person: write prompts, send requests, and read verdicts."""
