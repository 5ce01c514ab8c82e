"""Judges' servers: their addresses and keys, the connection, and what they take, answer and refuse."""
