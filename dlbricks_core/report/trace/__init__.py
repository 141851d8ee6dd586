"""A trace: events that viewers of traces open, and a summary of its levels."""
