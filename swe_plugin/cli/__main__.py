"""`python -m swe_plugin.cli`: the same as `swe-plugin`."""

from __future__ import annotations

from swe_plugin.cli import main

main()
