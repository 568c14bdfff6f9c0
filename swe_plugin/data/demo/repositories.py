"""The small repositories of the demo: names of modules, functions and helpers, train and held-out apart."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HELDOUT", "TRAIN", "Repository"]


@dataclass(frozen=True, slots=True)
class Repository:
    """The names of one repository; no name is shared by two repositories.

    Attributes:
        name: repository name (`Task.repo`).
        module: stem of its only Python file.
        functions: functions of two integers that tasks break. Their names say nothing about the behaviour.
        helper: a correct function beside them that must keep working.
    """

    name: str
    module: str
    functions: tuple[str, ...]
    helper: str


def _read(table: str) -> tuple[Repository, ...]:
    rows = [line.split() for line in table.strip().splitlines()]
    return tuple(Repository(name, module, tuple(functions), helper) for name, module, helper, *functions in rows)


TRAIN = _read("""
    orchard    harvest   baskets   score    settle   rank
    brewery    barrel    bottles   blend    measure  grade
    harbour    dock      berths    berth    match    assign
    library    shelf     copies    lend     compare  place
    bakery     oven      trays     mix      combine  judge
    museum     gallery   rooms     relate   review   arrange
    railway    track     wagons    couple   route    signal
    hospital   ward      beds      triage   rate     admit
    theatre    stage     seats     cast     cue      pick
    garage     engine    wheels    tune     check    fit
    observatory lens     plates    focus    align    observe
    vineyard   cellar    casks     age      sort     taste
    airport    gate      lanes     board    clear    hold
    quarry     stone     carts     cut      weigh    haul
    school     lesson    desks     mark     teach    plan
    market     stall     crates    price    deal     count
""")
"""Repositories to train on: name, module, helper, functions."""

HELDOUT = _read("""
    lighthouse lamp      beams     shine    judgement pass_on
    foundry    mould     ingots    cast_in  temper   strike
    circus     ring      tents     juggle   balance  tumble
    farm       field     rows      plough   tend     gather
    studio     canvas    frames    sketch   compose  finish
    clinic     chart     files     examine  refer    note
""")
"""Repositories that training never sees."""
