"""The analyses: each is a function from the evidence to a data frame, whose columns are those of its CSV."""
