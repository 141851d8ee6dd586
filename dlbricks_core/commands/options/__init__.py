"""Options that several commands share, and their translation into requests."""
