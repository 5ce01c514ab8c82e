"""The planned showings of every pair: slots, sides, rounds and reserved raters."""
