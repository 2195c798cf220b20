"""Field cases: each is a folder that a generator wrote, with a model, pictures and what has to hold."""
