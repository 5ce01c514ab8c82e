"""Write the requests to a judge, and read the verdicts in the answers."""
