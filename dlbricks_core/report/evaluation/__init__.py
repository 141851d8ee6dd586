"""Evaluations of estimates against measured latencies."""
