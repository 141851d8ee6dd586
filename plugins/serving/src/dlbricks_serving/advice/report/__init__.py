"""Advice for terminals, scripts and browsers."""
