"""Drawings of models: the action ``graph`` of ``dlbricks show``."""
