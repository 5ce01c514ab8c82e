"""Read files that come from other people, without waiting and up to a size limit."""
