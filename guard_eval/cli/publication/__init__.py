"""A study goes out: its data set, its datasheet and its preregistration."""
