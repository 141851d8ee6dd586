"""llama.cpp as a backend of DLBricks."""
