"""Evaluation: a policy or a file of predictions over a dataset, with intervals and without silent failures."""

from __future__ import annotations

__all__: list[str] = []
