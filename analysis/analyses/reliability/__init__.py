"""Whether verdicts can be relied on: raters, the place and the length of texts."""
