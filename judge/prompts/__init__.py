"""Write a judge's requests and read its answers."""
