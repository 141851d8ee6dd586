"""The ONNX reference evaluator as a backend of DLBricks."""
