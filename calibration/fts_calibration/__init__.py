"""What the data says about a net: data sets, statistics, metrics, sensitivity."""
