"""The browser in which people compare texts; the only package that imports Streamlit."""
