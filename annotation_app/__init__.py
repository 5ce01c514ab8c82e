"""The browser in which people compare texts; the only room that knows Streamlit."""
