"""The component on which a pair is compared: Python, JavaScript and CSS side by side."""
