"""Which pair a rater is shown next, and on which side each text is."""
