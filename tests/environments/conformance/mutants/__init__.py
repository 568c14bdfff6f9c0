"""Backends with one fault each, on the example's bubblewrap, or on the sandbox where a session or a limit is needed."""

from . import commands, files, isolation, lifecycle, shell  # noqa: F401 - they fill the table
from .table import MUTANTS, Bubblewrap, Sandbox

__all__ = ["MUTANTS", "Bubblewrap", "Sandbox"]
