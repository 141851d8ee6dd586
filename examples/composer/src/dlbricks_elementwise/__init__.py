"""A composer of DLBricks: one element-wise layer of each operator is timed."""
