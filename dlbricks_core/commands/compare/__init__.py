"""Commands that compare frameworks: latencies and outputs."""
