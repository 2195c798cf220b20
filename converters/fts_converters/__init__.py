"""Target-neutral graph work and the flow of a conversion."""
