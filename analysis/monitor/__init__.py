"""Show the state of a running study and of its raters."""
