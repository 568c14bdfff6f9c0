"""Written by its owner."""
