"""The bundle format: a zip with stored members, a manifest with hashes, and nothing that is ever executed."""
