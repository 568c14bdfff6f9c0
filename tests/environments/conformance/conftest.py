"""The example plugin, on which most mutants stand, can be imported."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "example_plugin"))
