"""The web app in which people compare texts. Only this package imports Streamlit."""
