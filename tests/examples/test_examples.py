"""Each example does what it says, on small data."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import runpy
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmmc

pytestmark = pytest.mark.slow
PACKAGE = str(Path(dmmc.__file__).parents[1])


@pytest.fixture
def examples(repo: Path) -> Path:
    if not (repo / "examples").is_dir():
        pytest.skip("examples: these tests need the checkout")
    return repo / "examples"


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": PACKAGE, "DMMC": f"{sys.executable} -m dmmc"}
    return subprocess.run([str(one) for one in command], cwd=cwd, env=variables, capture_output=True, text=True)


def python(*command: object, cwd: Path) -> str:
    done = run(sys.executable, *command, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_has_a_test(examples: Path) -> None:
    tested = {
        "batch.sh",
        "customers.py",
        "label_a_few_pairs.py",
        "mnist_from_idx.py",
        "pipeline.py",
        "rings.py",
        "stream.py",
        "subspace.py",
        "text.py",
    }
    assert {path.name for path in examples.iterdir() if path.suffix in (".py", ".sh")} == tested


def test_customers_are_told_apart_and_their_csv_is_written(examples: Path, tmp_path: Path) -> None:
    done = run(sys.executable, examples / "customers.py", "customers.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")  # notes are sentences on stdout, not warnings with their places
    told = done.stdout
    assert "note: cells are missing, and they are filled: 'age'" in told
    accuracy = re.search(r"accuracy (0\.\d+)", told)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.97
    lines = (tmp_path / "customers.csv").read_text().splitlines()
    assert len(lines) == 5001
    assert lines[0].split(",")[0] == '"customer_id"'
    truth = (tmp_path / "customers-truth.csv").read_text().splitlines()
    assert truth[0] == '"customer_id","segment"'
    assert [line.split(",")[0] for line in truth] == [line.split(",")[0] for line in lines]
    assert {line.split(",")[1] for line in truth[1:]} == {'"student"', '"family"', '"professional"', '"retired"'}


def test_the_pipeline_labels_rows_it_has_not_seen(examples: Path, tmp_path: Path) -> None:
    told = python(examples / "pipeline.py", cwd=tmp_path)
    assert "1347 rows clustered, 450 others labelled" in told
    everywhere, sure = (float(found) for found in re.findall(r"(0\.\d+)$", told, flags=re.MULTILINE))
    assert 0.6 < everywhere < sure


def test_a_few_answers_make_fewer_errors(examples: Path, tmp_path: Path) -> None:
    told = python(examples / "label_a_few_pairs.py", cwd=tmp_path)
    first, *_, last = (float(found) for found in re.findall(r"error (\d+\.\d) %", told))
    assert last < first


def test_pairs_are_asked_for_in_a_file_and_read_from_it(examples: Path, tmp_path: Path, store_of: Any) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)) + 6 * (np.arange(60) % 2)[:, None]
    store = store_of(tmp_path / "rows.zarr", X)
    told = python(examples / "label_a_few_pairs.py", store, "--pairs", 4, cwd=tmp_path)
    assert told.startswith("pairs.csv: say of each pair")
    lines = (tmp_path / "pairs.csv").read_text().splitlines()
    assert (lines[0], len(lines)) == ("i,j,link", 5)
    ends = [[int(end) for end in line.split(",")[:2]] for line in lines[1:]]
    links = [f"{i},{j},{'must' if i % 2 == j % 2 else 'cannot'}" for i, j in ends]
    (tmp_path / "pairs.csv").write_text("\n".join([lines[0], *links]))
    told = python(examples / "label_a_few_pairs.py", store, cwd=tmp_path)
    assert told == "clusters of [30, 30] rows, 0 of the pairs broken; written to result/\n"


def test_a_stream_is_followed_batch_by_batch(examples: Path, tmp_path: Path) -> None:
    told = python(examples / "stream.py", cwd=tmp_path)
    errors = [float(found) for found in re.findall(r"error.* (0\.\d+)$", told, flags=re.MULTILINE)]
    assert len(errors) == 4
    assert max(errors) < 0.1
    assert not list(tmp_path.iterdir())


def test_rings_are_parted_by_a_kernel_and_not_by_a_line(examples: Path, tmp_path: Path) -> None:
    told = python(examples / "rings.py", cwd=tmp_path)
    line, kernel, unseen = (float(found) for found in re.findall(r"accuracy (\d\.\d+)", told))
    assert line < 0.7
    assert kernel > 0.99
    assert unseen > 0.99
    middle = told.splitlines()[-13]
    assert middle[0] == middle[-1] != middle[24]  # a disc inside of something


def write_made_up(example: Path, function: str, count: int, folder: Path) -> list[str]:
    """Write as many texts as an example makes up, a file each; gives the words of its topics."""
    names = runpy.run_path(str(example))
    for number, text in enumerate(names[function](count)):
        (folder / f"{number:03d}.txt").write_text(text)
    return list(names["TOPICS"].values())


def test_texts_are_clustered_by_topic(examples: Path, tmp_path: Path) -> None:
    topics = write_made_up(examples / "text.py", "made_up_texts", 90, tmp_path)
    for arguments, size in ([], 100), ([str(tmp_path), "-k", "3"], 30):
        told = python(examples / "text.py", *arguments, cwd=tmp_path)
        found = re.findall(r"cluster \d: +(\d+) texts  (.*)", told)
        assert [int(count) for count, _ in found] == [size] * 3
        for words in (set(line.split(", ")) for _, line in found):
            assert any(words <= set(topic.split()) for topic in topics)


def test_directions_between_texts_are_told_by_their_words(examples: Path, tmp_path: Path) -> None:
    topics = write_made_up(examples / "subspace.py", "made_up_letters", 120, tmp_path)
    for arguments, size in ([], 100), ([str(tmp_path), "-k", "4"], 30):
        told = python(examples / "subspace.py", *arguments, cwd=tmp_path)
        assert "4 clusters in 3 directions" in told
        assert [int(count) for count in re.findall(r"cluster \d: +(\d+) texts", told)] == [size] * 4
        of_topics = set(" ".join(topics).split())
        for ends in re.findall(r"direction \d \(\d+%\): (.*)", told):
            assert set(re.split(", | \\| ", ends)) <= of_topics


def idx(path: Path, values: Any) -> Path:
    header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(header + values.astype(np.uint8).tobytes()))
    return path


@pytest.mark.parametrize("given", [False, True])
def test_mnist_goes_from_idx_files_to_a_report(given: bool, examples: Path, tmp_path: Path, load: Any) -> None:
    files = []
    if given:
        X, y = load("digits")
        files = [idx(tmp_path / "images.gz", X.reshape(-1, 8, 8) * 15), idx(tmp_path / "labels.gz", y)]
    told = python(examples / "mnist_from_idx.py", *files, "-k", 10, "-o", "result", cwd=tmp_path)
    assert "1797 images of 64 pixels" in told
    accuracy = re.search(r"accuracy (0\.\d+)", told)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.7
    page = (tmp_path / "result" / "report.html").read_text()
    assert "<img src=" in page  # the rows are shown as images


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    with open(tmp_path / "my rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "a", "b", "c"])
        for i in range(120):
            writer.writerow([f"row{i}", *np.round(rng.normal(size=3) + 6 * (i % 2), 3)])
    return tmp_path / "my rows.csv"


def test_the_batch_job_clusters_the_rows_that_are_there_now(examples: Path, table: Path, tmp_path: Path) -> None:
    header, *rows = table.read_text().splitlines()
    for out, count in (("out", 120), ("out/", 80)):  # the second day there are fewer
        earlier = table.stat()
        table.write_text("\n".join([header, *rows[:count], ""]))
        os.utime(table, ns=(earlier.st_atime_ns, earlier.st_mtime_ns))  # as copies may do
        done = run("bash", examples / "batch.sh", table, 2, out, 60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        *about, last = done.stdout.splitlines()
        assert f"{count} x 3" in "\n".join(about)
        assert json.loads(last)["sizes"] == [count // 2, count // 2]
        labels = (tmp_path / "out" / "labels.csv").read_text().replace('"', "")
        assert labels.startswith("id,label,name,confidence,runner_up\nrow0,")
    assert sorted(path.name for path in tmp_path.iterdir()) == [table.name, "out"]


def test_the_batch_job_never_clusters_the_rows_of_an_earlier_day(examples: Path, table: Path, tmp_path: Path) -> None:
    command = ("bash", examples / "batch.sh", table, 2, "out", 60)
    assert run(*command, cwd=tmp_path).returncode == 0
    result = (tmp_path / "out" / "run.json").read_bytes()
    table.write_text(table.read_text() + "ragged,1\n")
    assert run(*command, cwd=tmp_path).returncode == 2
    table.unlink()
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert "does not exist" in done.stderr
    assert (tmp_path / "out" / "run.json").read_bytes() == result


def test_the_batch_job_fails_with_the_code_of_what_failed(examples: Path, table: Path, tmp_path: Path) -> None:
    table.write_text(table.read_text() + "ragged,1\n")
    done = run("bash", examples / "batch.sh", table, 2, "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "line 122" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [table.name]
