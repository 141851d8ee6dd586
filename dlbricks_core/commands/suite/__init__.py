"""Commands that write a suite of bricks and time it."""
