"""Predictor of DLBricks itself, and the distribution that brings it."""

PREDICTOR = "atlas"
"""Default predictor of latencies."""

DISTRIBUTION = "dlbricks-prediction"
"""Distribution of the default predictor."""

FOLDER = "plugins/prediction"
"""Folder of that distribution in a clone."""
