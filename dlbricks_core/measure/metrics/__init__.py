"""The built-in metrics, one in each file."""
