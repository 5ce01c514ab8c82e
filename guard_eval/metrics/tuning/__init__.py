"""Choose one setting of each strategy by the scores on the tuning prompts."""
