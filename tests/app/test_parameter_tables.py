"""A parameter is written once: constructor, docstring, terminal and page say the same, defaults included."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from dmmc import estimators
from dmmc.app.parameter_tables import find_parameters, make_page
from dmmc.errors import InputError
from dmmc.estimators.parameters import MOST_USED, list_parameters, show_default
from dmmc.methods import METHODS

ESTIMATORS = sorted({method.estimator for method in METHODS.values()})


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_table_has_the_parameters_and_defaults_of_the_constructor(name: str) -> None:
    estimator = getattr(estimators, name)
    signature = inspect.signature(estimator.__init__).parameters
    wanted = {each: value.default for each, value in signature.items() if each != "self"}
    assert {p.name: p.default for p in list_parameters(estimator)} == wanted == estimator().get_params()
    assert next(iter(wanted)) == "n_clusters"
    assert signature["n_clusters"].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert all(value.kind == inspect.Parameter.KEYWORD_ONLY for value in list(signature.values())[2:])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_docstring_has_a_line_for_each_parameter(name: str) -> None:
    estimator = getattr(estimators, name)
    lines = [line.strip() for line in estimator.__doc__.splitlines()]
    for p in list_parameters(estimator):
        assert f"{p.name} : {p.range}; default {show_default(p.default)}" in lines
    assert lines.index("Parameters") < lines.index("Attributes")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_defaults_are_within_their_own_ranges_and_nonsense_is_not(name: str) -> None:
    estimator = getattr(estimators, name)
    estimator().check_parameters()
    for p in list_parameters(estimator):
        if p.name != "random_state":  # checked where a seed is drawn from it
            with pytest.raises(InputError, match=p.name):
                estimator(**{p.name: "no such word"}).check_parameters()


def test_the_page_of_parameters_is_that_of_the_code(repo: Path) -> None:
    page = (repo / "docs" / "parameters.md").read_text(encoding="utf-8")
    assert page == make_page() + "\n", "run: python -m dmmc.app.parameter_tables > docs/parameters.md"


def test_a_methods_own_defaults_are_shown_and_what_its_name_fixes_is_not() -> None:
    shown = {p.name: p.default for p in find_parameters("fast-evommc")}
    assert shown["rank"] == "auto"
    assert "rank" not in {p.name for p in find_parameters("evommc")}
    assert "loss" not in {p.name for p in find_parameters("rmmc-sg")}


def test_the_terminal_shows_parameters_and_the_help_of_fit_names_the_most_used(cli: Any) -> None:
    done = cli("methods", "--parameters", "cpmmc")
    assert done.code == 0
    assert all(f"{p.name} = {show_default(p.default)}" in done.stdout for p in find_parameters("cpmmc"))
    assert cli("methods", "--parameters", "nothing").code == 2
    help_text = cli("fit", "--method", "cpmmc", "--help").stdout
    assert all(f"\n  {name} " in help_text for name in MOST_USED)
