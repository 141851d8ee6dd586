"""Quantities other than latency: load time, peak memory and cold start, a metric in each file."""
