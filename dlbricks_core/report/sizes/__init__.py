"""Models at several sizes: how fast language models answer, and curves over sizes."""
