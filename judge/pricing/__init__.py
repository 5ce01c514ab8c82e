"""What judging costs: prices, budgets, and estimates before anything is sent."""
