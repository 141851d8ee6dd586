"""ONNX Runtime as a backend of DLBricks."""
