"""PyTorch plugin of DLBricks; torch itself is imported only when the plugin is used."""
