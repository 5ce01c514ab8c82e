"""Many workers by Ray Data: the same engine, texts and scores, wherever there is a GPU or a CPU free.

Nothing of Ray is imported before it is used, and nothing of the package but this folder and the two commands
that use it imports Ray.
"""
