"""The choice of a setting of each strategy by its scores on the tuning prompts."""
