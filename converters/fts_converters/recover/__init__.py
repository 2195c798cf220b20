"""Mend what quantization broke, from the calibration photos alone: other biases, other roundings, then training."""
