"""Analyses of models: repetition, similarity and work."""
