"""What can be had without learning: the random policy and the untrained model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from swe_plugin.data.demo import FIXES, LOOK, MENU, SUBMIT, SimulatedEpisode
from swe_plugin.types import Task
from swe_plugin.verl_adapter.demo.sampling import run_episodes

__all__ = ["blind_rate", "model_rate", "random_policy_rate"]


def random_policy_rate(tasks: Sequence[Task], max_turns: int) -> float:
    """Expected resolved rate of a policy that draws every command uniformly from the menu; exact, by recursion."""

    def value(state: int, turns: int, wanted: int) -> float:
        if turns == max_turns:
            return float(state == wanted)
        total = 0.0
        for command in MENU:
            if command == SUBMIT:
                total += float(state == wanted)
            else:
                total += value(state if command == LOOK else FIXES.index(command), turns + 1, wanted)
        return total / len(MENU)

    solved = [_solving_fix(task) for task in tasks]
    return sum(value(-1, 0, wanted) for wanted in solved) / len(solved)


def blind_rate(tasks: Sequence[Task]) -> float:
    """Best resolved rate of any policy of menu commands that never looks, even if it knows every prompt by heart:
    the most frequent solving fix among the tasks that share a prompt.

    A fix overwrites whatever an earlier one wrote, so several of them are worth as much as the last.
    """
    solving: dict[str, Counter[int]] = defaultdict(Counter)
    for task in tasks:
        solving[task.problem_statement][_solving_fix(task)] += 1
    return sum(max(counts.values()) for counts in solving.values()) / len(tasks)


def _solving_fix(task: Task) -> int:
    (solving,) = [i for i, command in enumerate(FIXES) if _resolves(task, command)]
    return solving


def _resolves(task: Task, command: str) -> bool:
    episode = SimulatedEpisode(task, 1)
    episode.step(command)
    return episode.resolved


def model_rate(model: Any, tokenizer: Any, tasks: Sequence[Task], *, max_turns: int, max_turn_tokens: int) -> float:
    """Resolved rate of a model that samples at temperature 1, in simulated episodes."""
    episodes = run_episodes(model, tokenizer, tasks, max_turns=max_turns, max_turn_tokens=max_turn_tokens)
    return sum(conversation.episode.resolved for conversation in episodes) / len(tasks)
