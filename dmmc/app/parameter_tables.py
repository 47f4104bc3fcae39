"""The table of a method's parameters, for the terminal and for docs/parameters.md."""

import textwrap

from dmmc import estimators
from dmmc.errors import InputError
from dmmc.estimators.parameters import MOST_USED, Parameter, Words, list_parameters, show_default
from dmmc.methods import METHODS

HEAD = """\
# Parameters

Made by `python -m dmmc.app.parameter_tables > docs/parameters.md` from the fields of the estimators; a test compares
them. `dmmc fit --set NAME=VALUE` and `dmmc.fit(..., NAME=VALUE)` pass them on. `dmmc.fit` and the command line have
`random_state=0`; the estimators have None, as scikit-learn's do."""


def find_parameters(method: str) -> list[Parameter]:
    """The parameters that a method takes, with its own defaults."""
    if method not in METHODS:
        raise InputError(f"method is {method!r}; this version has {', '.join(METHODS)}.")
    record = METHODS[method]
    found = list_parameters(getattr(estimators, record.estimator))
    return [p._replace(default=record.defaults.get(p.name, p.default)) for p in found if p.name not in record.params]


def takes_word(name: str, word: str) -> bool:
    """Whether a parameter of any method may be this word."""
    every = (p for method in METHODS for p in find_parameters(method) if p.name == name)
    return any(isinstance(p.range, Words) and word in p.range.words for p in every)


def list_most_used(method: str) -> list[tuple[str, str]]:
    """Name, and meaning with default, of the parameters that users set most."""
    found = {p.name: p for p in find_parameters(method)}
    return [(name, f"{found[name].meaning} [default: {found[name].default}]") for name in MOST_USED]


def show_parameters(method: str, *, markdown: bool = False) -> str:
    """All parameters of a method: name, default, range and meaning."""
    found = find_parameters(method)
    if markdown:
        cells = [(f"`{p.name}`", f"`{show_default(p.default)}`", str(p.range), p.meaning) for p in found]
        rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
        return "\n".join(["| parameter | default | range | meaning |", "|---|---|---|---|", *rows])
    lines = []
    for p in found:
        lines.append(f"{p.name} = {show_default(p.default)}    {p.range}")
        lines += textwrap.wrap(p.meaning, 96, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def make_page() -> str:
    """docs/parameters.md: the parameters of every method."""
    tables: dict[str, list[str]] = {}
    for method in METHODS:
        tables.setdefault(show_parameters(method, markdown=True), []).append(f"`{method}`")
    return "\n\n".join([HEAD, *(f"## {', '.join(names)}\n\n{table}" for table, names in tables.items())])


if __name__ == "__main__":
    print(make_page())  # noqa: T201
