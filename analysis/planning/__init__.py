"""How many items and raters a study needs."""
