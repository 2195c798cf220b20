"""Scale channels so that quiet ones are not rounded on the grid of loud ones: where it can be done, by how much, what follows.

    channel_groups    which channels must share a factor, and what blocks them      (links, weighted: operator by operator)
    factors           the factors, a value: powers of two, by tensor and channel
    factors_from_...  choose them from weights alone, or from calibrated ranges
    norm_condition    what a norm's epsilon allows
    scaled_statistics what was measured on the net before says the same about the net after

`passes/equalize.py` applies them.
"""
