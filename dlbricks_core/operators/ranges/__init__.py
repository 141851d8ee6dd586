"""Ranges of tensors' values, and the form of an operator's rule for them."""
