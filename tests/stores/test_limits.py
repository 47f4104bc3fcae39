"""Limits of waits: settings of Dask."""

from __future__ import annotations

import dask
import pytest

from dmmc.errors import InputError
from dmmc.stores.limits import StoreLimits


def test_limits_are_settings_of_dask() -> None:
    with dask.config.set({"dmmc.store.answer": "5s", "dmmc.store.total": "3m", "dmmc.store.at_once": 7}):
        assert StoreLimits.from_config() == (5.0, 180.0, 7)


@pytest.mark.parametrize(("name", "value"), [("answer", "soon"), ("total", "0s"), ("total", "-1s"), ("at_once", 0)])
def test_a_limit_that_is_none_is_refused_by_its_name(name: str, value: object) -> None:
    with dask.config.set({f"dmmc.store.{name}": value}), pytest.raises(InputError, match=rf"dmmc\.store\.{name} is "):
        StoreLimits.from_config()
