"""Canonical form of one layer, computed on a draft without names of the model."""
