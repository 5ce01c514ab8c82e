"""The way in for files of other people: opened without waiting, and read up to a limit."""
