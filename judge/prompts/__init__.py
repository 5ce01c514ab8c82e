"""What a judge reads: instructions, examples, and the two texts as data."""
