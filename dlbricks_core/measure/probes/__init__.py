"""The probes that come with DLBricks, one a file."""
