"""Scenarios: latency and throughput of instances under load, measured and composed from bricks."""
