"""The database: tables, queries, transactions, and damage in the file."""
