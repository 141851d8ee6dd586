"""A predictor of DLBricks: latencies in proportion to operations and bytes."""
