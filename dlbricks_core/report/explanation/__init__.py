"""Explanations: deviations of an estimate from the measured latency, and their reasons."""
