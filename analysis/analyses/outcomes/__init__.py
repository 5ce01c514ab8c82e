"""Who won, and how certain that is."""
