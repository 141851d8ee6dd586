"""Advice: which system and which model, for terminals, scripts and browsers."""
