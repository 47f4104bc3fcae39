"""Which parts of a loss or a norm a solver needs, and the sentence that names a missing one."""

from collections.abc import Mapping

from dmmc.errors import InputError


def check_parts(kind: str, given: object, solver: str, needed: Mapping[str, str]) -> None:
    """Refuse a loss or a norm that lacks a part.

    kind : "loss" or "norm"
    given : the loss or norm
    solver : what the sentence calls the solver
    needed : the names of the parts, and what each is
    """
    for part, meaning in needed.items():
        if not hasattr(given, part):
            raise InputError(f"the {kind} {given!r} has no `{part}` ({meaning}), which {solver} needs.")
