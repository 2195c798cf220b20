"""Commands that need the base install alone."""
