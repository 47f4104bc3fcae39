"""What dmmc says when it cannot do what was asked: sentences that can be acted on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import dmmc
from dmmc.convert import convert
from dmmc.errors import InputError, needs, refuse_url


def test_a_hint_to_install_names_packages_of_an_index_not_extras_of_a_clone(repo: Path) -> None:
    assert needs("a page", "one", "two") == "a page needs one and two; install with: pip install one two."
    extras = tomllib.loads((repo / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    known = {re.split("[>=]", package)[0] for packages in extras.values() for package in packages}
    texts = [path.read_text() for folder in ("dmmc", "benchmarks") for path in (repo / folder).rglob("*.py")]
    calls = [re.findall('"([^"]+)"', call)[1:] for text in texts for call in re.findall(r"needs\((.+)\)", text)]
    named = {package for call in calls for package in call}
    assert {"h5py", "umap-learn", "bokeh", "plotly", "jinja2"} <= named <= known
    assert not any("dmmc[" in text for text in texts)


@pytest.mark.parametrize("url", ["s3://bucket/x", "https://host/x.csv", "file:///x"])
def test_a_url_is_refused_as_it_was_given_wherever_a_path_is_wanted(url: str, tmp_path: Path) -> None:
    refuse_url("a/b:c")
    run = dmmc.fit([[0.0], [1.0], [0.0], [1.0]], 2, method="cpmmc")
    calls = (
        lambda: refuse_url(url),
        lambda: dmmc.fit([[0.0], [1.0]], 2, out=url, method="cpmmc"),
        lambda: dmmc.fit([[0.0], [1.0]], 2, constraints=url),
        lambda: run.save(url),
        lambda: dmmc.load(url),
    )
    for call in calls:
        with pytest.raises(InputError, match=f"^{re.escape(url)} is a URL; a path on this machine is wanted here"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", ["ftp://host/x.zarr", "file:///x.csv", "simplecache::s3://bucket/x.zarr"])
def test_a_url_of_an_unknown_kind_is_refused_with_those_that_are_known(url: str, tmp_path: Path) -> None:
    run = dmmc.fit([[0.0], [1.0], [0.0], [1.0]], 2, method="cpmmc")
    (tmp_path / "t.csv").write_text("1\n2\n")
    calls = (
        lambda: dmmc.fit(url, 2, method="cpmmc"),
        lambda: run.model.predict(url),
        lambda: run.model.predict([[0.0]], out=url),
        lambda: convert(url, tmp_path / "x.zarr"),
        lambda: convert(tmp_path / "t.csv", url),
    )
    for call in calls:
        with pytest.raises(
            InputError, match=f"^{re.escape(url)} is a URL of a kind that is not read: s3://, gs://, az:"
        ):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
