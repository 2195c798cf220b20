"""Commands about targets; the base install is enough."""
