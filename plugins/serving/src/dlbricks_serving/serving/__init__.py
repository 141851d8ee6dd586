"""Throughput and tail latency of several instances of a model."""
