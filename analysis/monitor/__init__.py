"""What a running study has, and how its raters do."""
