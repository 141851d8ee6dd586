"""A column of DLBricks: how precise each estimate is."""
