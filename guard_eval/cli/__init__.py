"""The command line: a table of commands, one printer, errors and exit codes. This file imports nothing."""
