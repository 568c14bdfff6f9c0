"""Dummies that are remembered."""

from swe_plugin.environments.dummy import DummyBehaviour, DummyEnvironment


class Factory:
    """Makes dummies; `made`, oldest first."""

    def __init__(self, **behaviour):
        self.behaviour = DummyBehaviour(**behaviour)
        self.made = []

    def __call__(self, spec):
        self.made.append(DummyEnvironment(spec, behaviour=self.behaviour))
        return self.made[-1]

    @property
    def left(self):
        """Those that are not stopped."""
        return [environment for environment in self.made if not environment.stopped]

    @property
    def all_stopped(self):
        return not self.left
