"""The analyses. Each is a function from the evidence to a data frame with the columns of its CSV."""
