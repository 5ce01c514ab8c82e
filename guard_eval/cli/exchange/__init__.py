"""Verdicts and texts that come from other tools, and verdicts that go to them."""
