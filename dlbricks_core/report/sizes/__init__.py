"""Models at several sizes: speed of language models, and curves over sizes."""
