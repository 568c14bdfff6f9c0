"""The embedded demo's tasks: generated repositories, hidden tests, commands, and a simulator of episodes."""

from swe_plugin.data.demo.behaviours import BEHAVIOURS, FAMILIES, Behaviour
from swe_plugin.data.demo.commands import FIXES, LOOK, MENU, SUBMIT, fix
from swe_plugin.data.demo.order import balanced_order
from swe_plugin.data.demo.simulator import SimulatedEpisode
from swe_plugin.data.demo.tasks import demo_tasks, split_tasks

__all__ = [
    "BEHAVIOURS",
    "FAMILIES",
    "FIXES",
    "LOOK",
    "MENU",
    "SUBMIT",
    "Behaviour",
    "SimulatedEpisode",
    "balanced_order",
    "demo_tasks",
    "fix",
    "split_tasks",
]
