"""What is told of tables is in their own units."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dmmc
from dmmc.profile.units import tell_cell, tell_date

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")


@pytest.fixture(scope="module")
def shop() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    old = np.arange(200) % 2 == 0
    days = np.where(old, 1000, 3000) + rng.integers(0, 30, 200)
    return pd.DataFrame(
        {
            "income": np.where(old, 90_000, 20_000) + rng.normal(0, 1000, 200),
            "joined": pd.Timestamp("2015-01-01") + pd.to_timedelta(days, unit="D"),
            "plan": np.where(old, "plus", "basic"),
            "member": old ^ (np.arange(200) % 20 == 0),
        }
    )


@pytest.fixture(scope="module")
def run(shop: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return dmmc.fit(shop, 2, method="cpmmc", out=tmp_path_factory.mktemp("units") / "out")


def test_the_profile_of_a_table_has_its_own_means_days_and_shares(shop: pd.DataFrame, run: Any) -> None:
    found = run.profile().set_index(["cluster", "feature"])
    for cluster, rows in shop.groupby(run.labels):
        others = shop.drop(rows.index)
        for side, part in (("inside", rows), ("outside", others)):
            told = found[side].loc[cluster]
            assert told["income"] == pytest.approx(part["income"].mean())
            assert told["member"] == pytest.approx(part["member"].mean())
            assert told["plan=plus"] == pytest.approx((part["plan"] == "plus").mean())
            away = pd.Timestamp(told["joined"]) - part["joined"].mean()
            assert abs(away) <= datetime.timedelta(days=0.51)


def test_names_say_late_and_early_of_dates(run: Any) -> None:
    assert any("early joined" in name for name in run.names)
    assert any("late joined" in name for name in run.names)


def test_centres_are_means_of_the_tables_columns(shop: pd.DataFrame, run: Any) -> None:
    income = [name == "income" for name in run.model.feature_names_in_].index(True)
    means = shop["income"].groupby(run.labels).mean()
    assert np.allclose(run.model.cluster_centers_[:, income], means, rtol=1e-6)


def test_rows_of_the_report_are_told_in_the_tables_units(shop: pd.DataFrame, tmp_path: Path) -> None:
    dmmc.fit(shop, 2, method="cpmmc", out=tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "joined</bdi> <b>2017-" in page or "joined</bdi> <b>2023-" in page
    assert "<bdi>plan=plus</bdi> <b>yes</b>" in page
    lines = (tmp_path / "out" / "profile.csv").read_text(encoding="utf-8").splitlines()
    assert any(",joined,20" in line for line in lines)


@pytest.mark.parametrize(
    ("cell", "kind", "told"),
    [(59.0, "date", "1970-03-01"), (1.0, "category", "yes"), (0.0, "boolean", "no"), (0.4, "boolean", 0.4)],
)
def test_cells_are_told_as_people_write_them(cell: float, kind: str, told: str | float) -> None:
    assert tell_cell(cell, kind) == told


@pytest.mark.parametrize("days", [np.nan, np.inf, 1e30])
def test_no_day_is_told_of_what_is_none(days: float) -> None:
    assert tell_date(days) == ""


def test_who_lacks_something_is_named_by_it_where_it_is_a_truth_value() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(400) % 4 > 0
    shop = pd.DataFrame({"member": member, "age": rng.normal(30, 2, 400) + 30 * ~member})
    run = dmmc.fit(shop, 2, method="cpmmc")
    lacking = int(run.labels[np.flatnonzero(~member)[0]])
    assert run.names[lacking].startswith("not member") or "high age, not member" in run.names[lacking]
    assert "member" in run.names[1 - lacking].split(", ")
    inside = [line for line in run.profile(1).to_dict("records") if line["feature"] == "member"]
    assert sorted(line["inside"] for line in inside) == pytest.approx([0.0, 1.0])
    assert 0.0 in [line["inside"] for line in inside]  # and not something like -7e-15
