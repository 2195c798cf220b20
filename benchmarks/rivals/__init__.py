"""Other quantizers, run beside fts by `benchmarks/fidelity.py`: one module a rival, and what the comparison needs.

The rivals' modules run in the rivals' own Python and import nothing of fts; all others run in the project's.
"""
