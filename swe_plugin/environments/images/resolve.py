"""From an `Image` to directories on this node that a backend can mount."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath

from swe_plugin.environments.disk import disk_slot
from swe_plugin.environments.factory import AGENT_ENV
from swe_plugin.environments.images.checkout import build_checkout, check_commit
from swe_plugin.environments.images.checks import check_contents, check_program
from swe_plugin.environments.images.metered import OnRead
from swe_plugin.environments.images.recipe import Runner, check_recipe, install_requirements, run_setup
from swe_plugin.environments.images.repository import build_repository, repository_key
from swe_plugin.environments.images.sources import Source, Step, check_source, key_of, naming, open_source, user_of
from swe_plugin.environments.images.store import ImageStore
from swe_plugin.environments.images.view import MergedView
from swe_plugin.environments.images.workspace import build_workspace, needs_workspace
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

__all__ = ["Layers", "check_image", "expects_root", "resolve"]


@dataclass(frozen=True, slots=True)
class Layers:
    """Read-only directories that make up a root file system, topmost first, held until `release`.

    Attributes:
        directories: at least one.
        key: digest of all of it: equal keys, equal content.
        env: variables that the image sets.
    """

    directories: tuple[Path, ...]
    key: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    store: ImageStore | None = field(default=None, repr=False, compare=False)

    @property
    def view(self) -> MergedView:
        """They as one tree."""
        return MergedView(self.directories)

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The agent's variables: `given`, and what the image sets beside them. Its PATH outranks the default one."""
        ours = {name: value for name, value in given.items() if (name, value) != ("PATH", AGENT_ENV["PATH"])}
        return {**given, **self.env, **ours}

    def check(self, image: Image, env: Mapping[str, str], owner: tuple[int, int]) -> None:
        """Whether an agent can work in them. A process that found so once looks at the same layers no more.

        Raises:
            EnvironmentStartError: see `checks.check_contents`; names the image.
        """
        python, variables = image.python if image.requirements else "", self.environment(env)
        seen = (self.directories, self.key, image.workdir, variables.get("PATH"), owner, python)
        if seen not in _usable:
            with naming(image.base):
                check_contents(self.view, image.workdir, env=variables, owner=owner, python=python)
            _usable.add(seen)

    def release(self) -> None:
        """They may be removed from the store now, unless others use them. Call once."""
        if self.store is not None:
            for directory in self.directories:
                self.store.release(directory)


_usable: set[tuple[object, ...]] = set()
_known: dict[str, tuple[tuple[Path, ...], str, Mapping[str, str]]] = {}
"""What images led to in this process, so that a start looks at no archive again."""


def resolve(
    image: Image,
    *,
    owner: tuple[int, int],
    store: ImageStore | None = None,
    run: Runner | None = None,
    squash: bool | None = None,
    on_read: OnRead | None = None,
) -> Layers:
    """Build what is missing on this node and return the layers. Blocking.

    Args:
        image: what an environment starts from.
        owner: user and group id, on this machine, that the agent's files belong to.
        store: where built layers live; default the node's.
        run: runs the commands of a recipe; without it such an image is refused.
        squash: whether all files belong to the caller, see `unpack.unpack_layer`; default: if the owner is the caller.
        on_read: hears of the bytes of the base that are read, see `sources.open_source`.

    Raises:
        EnvironmentStartError: the image cannot be had here; the message names it and the fix.
    """
    _check(image)
    store = store or ImageStore()
    squash = owner == (os.geteuid(), os.getegid()) if squash is None else squash
    known = key_of("image", asdict(image), owner, squash, str(store.root))
    if (layers := _again(known, store)) is not None:
        return layers
    stack = _Stack(open_source(image.base, store.root / "references", squash=squash, on_read=on_read), store)
    try:
        with naming(image.base):
            stack.build(image, owner, squash, run)
    except BaseException:
        stack.layers.release()
        raise
    _known[known] = stack.layers.directories, stack.layers.key, stack.layers.env
    return stack.layers


def expects_root(image: Image, store: ImageStore) -> bool:
    """Whether the image was made for a user who is root, as its configuration says. Blocking; builds nothing.

    Raises:
        EnvironmentStartError: the image cannot be had here; the message names it and the fix.
    """
    return user_of(image.base, store.root / "references").partition(":")[0] in ("0", "root")


def check_image(image: Image) -> None:
    """Whether `resolve` can have the image on this node, as far as a look at it tells.

    Builds nothing and asks no registry. Blocking.

    Raises:
        EnvironmentStartError: it cannot; the message names the image and the fix.
    """
    _check(image)
    check_source(image.base)


def _check(image: Image) -> None:
    if not image.workdir.startswith("/") or ".." in PurePosixPath(image.workdir).parts:
        raise EnvironmentStartError(f"image.workdir={image.workdir!r}: must be an absolute path")
    with naming(image.base):
        check_recipe(image.python, image.requirements, image.as_of)
        if image.repository and image.files:
            raise EnvironmentStartError("image.repository and image.files exclude each other")
        if image.repository:
            check_commit(image.repository, image.commit)


class _Gone(Exception):
    """A layer that was known has been removed."""


def _gone(_: Path) -> None:
    raise _Gone


def _again(known: str, store: ImageStore) -> Layers | None:
    """The layers of an image that was resolved before, held; None if they are not all here any more."""
    if known not in _known:
        return None
    directories, key, env = _known[known]
    held: list[Path] = []
    try:
        for directory in directories:
            held.append(store.get(directory.name, _gone) if directory.parent == store.root else directory)
    except _Gone:
        Layers(tuple(held), store=store).release()
        return None
    return Layers(tuple(held), key, env, store)


class _Stack:
    """Layers being put on one another, each held as soon as it is there."""

    def __init__(self, source: Source, store: ImageStore) -> None:
        base = (source.directory,) if source.directory else ()
        self.layers = Layers(base, source.key if base else "", source.env, store)
        self._source, self._store = source, store

    def build(self, image: Image, owner: tuple[int, int], squash: bool, run: Runner | None) -> None:
        for step in self._source.steps:
            self._add(step)
        if image.requirements:
            self._add(self._requirements(image, squash, run))
        if (repository := self._repository(image, owner)) is not None:
            self._add(repository)
        if image.setup:
            self._add(self._setup(image, owner, squash, run))

    def _add(self, step: Step) -> None:
        view, before = self.layers.view, self.layers

        def build(root: Path) -> None:
            with nullcontext() if step.nests else disk_slot():
                step.build(root, view)

        directory = self._store.get(step.key, build, what=step.what)
        key = key_of("stack", before.key, step.key) if before.key else step.key
        self.layers = replace(before, directories=(directory, *before.directories), key=key)

    def _requirements(self, image: Image, squash: bool, run: Runner | None) -> Step:
        check_program(self.layers.view, image.python, self.layers.env)

        def build(root: Path, view: MergedView) -> None:
            with self._store.scratch() as scratch:
                install_requirements(
                    _needed(run),
                    view.layers,
                    root,
                    scratch,
                    python=image.python,
                    requirements=image.requirements,
                    as_of=image.as_of,
                    env=self.layers.env,
                )

        key = key_of("requirements-1", self.layers.key, image.python, image.requirements, image.as_of, squash)
        return Step(key, f"{image.base} requirements", build)

    def _repository(self, image: Image, owner: tuple[int, int]) -> Step | None:
        workdir = PurePosixPath(image.workdir)
        if image.repository:
            mirror = self._store.root / "mirrors" / key_of(image.repository)
            key = key_of("checkout-1", image.repository, image.commit, image.workdir, owner)
            packs = self._store.root / "packs" / key_of(image.repository, owner)
            return Step(
                key,
                f"{image.repository} at {image.commit[:12]}",
                lambda root, view: build_checkout(
                    root, view, mirror, image.repository, image.commit, workdir, owner, packs
                ),
            )
        if image.files:
            key = repository_key(image.files, image.workdir, owner)
            what = f"files of {image.workdir}"
            return Step(key, what, lambda root, _: build_repository(root, image.files, image.workdir, owner))
        real = self.layers.view.resolve(workdir)
        if not needs_workspace(self.layers.view, real, owner):
            return None
        state = _state(self.layers.view, real) if self._source.directory else ()
        key = key_of("workspace-1", self.layers.key, str(real), image.commit, owner, state)
        packs = self._store.root / "packs" / key_of(self.layers.key, str(real), owner)
        return Step(
            key,
            f"{image.base} {image.workdir}",
            lambda root, view: build_workspace(root, view, real, image.commit, owner, packs),
        )

    def _setup(self, image: Image, owner: tuple[int, int], squash: bool, run: Runner | None) -> Step:
        me = os.geteuid(), os.getegid()

        def build(root: Path, _: MergedView) -> None:
            under = resolve(replace(image, setup=()), owner=me, store=self._store, run=run, squash=squash)
            try:
                with disk_slot(), self._store.scratch() as scratch:
                    run_setup(
                        _needed(run),
                        under.directories,
                        root,
                        scratch,
                        commands=image.setup,
                        workdir=image.workdir,
                        owner=owner,
                        env=under.env,
                    )
            finally:
                under.release()

        return Step(key_of("setup-1", self.layers.key, image.setup, owner), f"{image.base} set-up", build, nests=True)


def _needed(run: Runner | None) -> Runner:
    if run is None:
        raise EnvironmentStartError("requirements and set-up commands run in a sandbox, which does not work here")
    return run


def _state(view: MergedView, workdir: PurePosixPath) -> list[object]:
    """Of a directory that is taken as it is: what changes when its repository does."""
    places = [view.lookup(workdir / name) for name in ("", ".git", ".git/HEAD", ".git/index", ".git/refs/heads")]
    return [(info.st_ino, info.st_mtime_ns) for info in (place.lstat() for place in places if place)]
