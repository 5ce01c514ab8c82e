"""The LLM as one more rater: the prompt, the connection, the reading of answers, and the run."""
