"""ONNX Runtime's own operators: what the IR knows of them, and what they amount to elsewhere."""
