"""A judge asked by the Batch API, at half the price: hours of patience, and nothing paid twice."""
