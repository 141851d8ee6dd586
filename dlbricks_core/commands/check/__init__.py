"""Commands that compare estimates with measurements."""
