"""The pages that a rater sees, and the session behind them."""
