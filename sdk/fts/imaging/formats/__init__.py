"""Picture files read as bytes: one file a format, each says size, completeness and what our decoder would get wrong."""
