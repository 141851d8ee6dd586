"""Studies: what the DLBricks paper shows, for any models."""
