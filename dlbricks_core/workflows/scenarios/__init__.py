"""What instances of a model show under load: measured, and composed from bricks."""
