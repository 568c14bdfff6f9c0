"""The death of verl's rollout queue ends the run: its clients wait for ever for an answer.

Every poll of the replay buffer asks the queue's controller over ZeroMQ without a deadline, so that nothing in the
driver's thread could notice that the controller's process is gone. Ray does: a call that is held open fails at once.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import Any

import ray

__all__ = ["guard_queue"]

logger = logging.getLogger(__name__)

_PERIOD_S = 5.0
_GRACE_S = 20.0
"""After the death: a run that ends in peace closes the queue itself, and its process is gone soon after."""
_EXIT_CODE = 70
"""Of the trainer's process; the driver then ends with Ray's error about it."""


def guard_queue() -> None:
    """Start watching the queue from a thread of its own; this process, verl's task runner, ends with it.

    Nothing is watched where there is no queue, or outside of an actor: another process is not ours to end.
    """
    if ray.get_runtime_context().get_actor_id() is None:
        return
    try:
        controller = ray.get_actor("TransferQueueController", namespace="transfer_queue")
    except ValueError:
        return
    threading.Thread(target=_watch, args=(controller,), daemon=True, name="swe-queue-guard").start()


def _watch(controller: Any) -> None:
    while ray.is_initialized():  # a call would start Ray anew
        try:
            ray.get(controller.__ray_ready__.remote())
        except ray.exceptions.RayActorError as error:
            time.sleep(_GRACE_S)
            logger.critical("the rollout queue (TransferQueueController) died; the run ends: %s", str(error)[:300])
            sys.stderr.flush()
            os._exit(_EXIT_CODE)
        except Exception:  # Ray is shutting down, mostly
            logger.warning("the rollout queue is no longer watched", exc_info=True)
            return
        time.sleep(_PERIOD_S)
