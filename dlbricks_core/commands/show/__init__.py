"""Commands that show a model's layers, bricks and repeats."""
