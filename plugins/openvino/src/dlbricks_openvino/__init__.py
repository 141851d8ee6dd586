"""OpenVINO as a backend of DLBricks."""
