"""From prompts to texts: the strategies, how each chooses a token, and the engines that run them."""
