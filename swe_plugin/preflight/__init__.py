"""What can be known before a run starts: findings about this machine and this installation."""

from swe_plugin.preflight.finding import Finding

__all__ = ["Finding"]
