"""How far an output is from the FP32 output, and budgets over it."""
