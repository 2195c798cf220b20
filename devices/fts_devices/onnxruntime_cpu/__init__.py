"""ONNX Runtime's CPU provider as a host validator: what it makes of a graph, read from its own optimised graph."""
