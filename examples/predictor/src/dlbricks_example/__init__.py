"""A composer and a predictor to copy."""
