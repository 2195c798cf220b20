"""Engines: what runs a graph, and whether it can run here."""
