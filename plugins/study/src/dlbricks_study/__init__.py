"""Evaluation of the DLBricks paper for any models: the command ``dlbricks study``."""
