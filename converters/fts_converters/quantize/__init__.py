"""From statistics and a plan to a QDQ graph: units, ranges, plan, encoding, and the search under a budget."""
