"""Statistics of tensors over a calibration set, in one streaming pass and constant memory."""
