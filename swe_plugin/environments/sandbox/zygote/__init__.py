"""Code that runs in the zygote and in the sandboxes it forks: a fresh ``python -I -S``, standard library only.

Everything is imported before the first fork: a sandbox has pivoted away from these files and cannot import.
"""
