"""Runs: estimates of models from their bricks, beside measured latencies."""
