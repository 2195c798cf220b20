"""Pictures to tensors and back: decoding, fitting, preprocessing, and their inverses."""
