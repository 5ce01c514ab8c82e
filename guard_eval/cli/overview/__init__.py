"""The owner's view of a running study: how far it is, and how its raters do.

It shows nothing of which method is ahead: whoever looks at that while verdicts come in, and stops when they
like what they see, finds differences that are not there.
"""
