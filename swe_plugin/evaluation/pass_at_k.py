"""pass@k without bias."""

from __future__ import annotations

from math import comb

__all__ = ["pass_at_k"]


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """``1 - C(n-c, k) / C(n, k)``: how likely one of `k` of the samples passes, drawn without replacement.

    Its expectation is pass@k, which that of ``1 - (1 - c/n)^k`` is not. Chen et al. 2021, "Evaluating Large Language
    Models Trained on Code" (arXiv:2107.03374), equation 1.

    Args:
        samples: n, attempts at one task that have a verdict.
        passed: c, those of them that resolve it.
        k: at least 1.

    Raises:
        ValueError: not ``0 <= c <= n`` and ``1 <= k <= n``.
    """
    if not (0 <= passed <= samples and 1 <= k <= samples):
        raise ValueError(f"n={samples}, c={passed}, k={k}: must be 0 <= c <= n and 1 <= k <= n")
    return 1.0 - comb(samples - passed, k) / comb(samples, k)
