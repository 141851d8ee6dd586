"""A command of DLBricks: the largest tensor that each model computes."""
