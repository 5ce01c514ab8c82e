"""The server around the pages: starting it, its middlewares and its log."""
