"""Latency on the device: measure, judge whether the figures are stable, compare, show."""
