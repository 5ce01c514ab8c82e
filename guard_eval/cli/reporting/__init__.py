"""What a report needs to know of a study."""
