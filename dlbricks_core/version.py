"""Version of DLBricks."""

__version__ = "0.1.0"
