"""Canonical form of one layer, worked out on a draft of it that knows no names of the model."""
