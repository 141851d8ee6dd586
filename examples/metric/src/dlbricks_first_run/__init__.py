"""A metric of DLBricks: the time of the first run."""
