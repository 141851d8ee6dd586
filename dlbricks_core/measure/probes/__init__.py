"""The built-in probes, one in each file."""
