"""GUARD: its step, in each of the three formulations, and the same as one compiled function."""
