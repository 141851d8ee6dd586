"""Outputs of frameworks side by side: the action ``outputs`` of ``dlbricks compare``."""
