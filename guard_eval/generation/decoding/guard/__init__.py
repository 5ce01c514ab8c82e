"""GUARD in its three formulations."""
