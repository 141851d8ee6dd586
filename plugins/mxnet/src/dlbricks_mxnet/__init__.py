"""MXNet as a DLBricks backend and importer."""
