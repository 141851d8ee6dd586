"""Explanations: where an estimate deviates from the measured latency, and why."""
