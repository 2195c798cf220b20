"""Other weights and biases for the integer kernels, fitted to what the float net gives; one method a file."""
