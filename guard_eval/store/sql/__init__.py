"""The database itself: its tables, its queries, its transactions, and damage in its file."""
