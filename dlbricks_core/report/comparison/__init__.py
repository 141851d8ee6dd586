"""Comparisons of backends."""
