"""What a judge is asked, and how its answer is read."""
