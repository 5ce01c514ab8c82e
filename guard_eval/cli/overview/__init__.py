"""The owner's view of a running study: how far it is, and how its raters do.

It shows nothing of which method is ahead: people who look at that while verdicts come in, and stop when they
like what they see, finds differences that are not there.
"""
