"""A composer and a predictor, as templates."""
