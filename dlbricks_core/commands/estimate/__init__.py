"""Commands that estimate models, with and without runs."""
