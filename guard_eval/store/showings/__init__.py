"""The planned showings of every pair: their slots, sides and rounds, and who is to rate them."""
