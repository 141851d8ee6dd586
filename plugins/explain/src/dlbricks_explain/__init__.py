"""Deviations of estimates by layers, and traces: two actions of ``dlbricks check``."""
