"""Studies: the evaluation of the DLBricks paper for any models."""
