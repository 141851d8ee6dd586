"""Errors of estimates against measured latencies: ``dlbricks check``."""
