"""Use an LLM as one more rater: write prompts, send requests, and read verdicts."""
