"""Result folders, finished and not, in which something is altered that no checksum protects; then commands are run."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

from alterations import Random, alter_arrays, alter_file, alter_json, alter_json_file, list_files, pick
from forgeries import write_sealed
from fuzz_stores import convert_csv, make_rows
from permissions import without_override
from stops import Stop, stop_after

import dmmc
from dmmc.app.cli import cli
from dmmc.app.exit_codes import find_code
from dmmc.errors import InputError
from dmmc.results import array_folder
from dmmc.results.label_arrays import read_labels

CODES = (0, 2, 4)
"""Done; bad input; the disk failed."""
FIT = ("-k", "3", "--method", "cpmmc", "--quiet", "--n-jobs", "1")
PARTS = ("model", "labels.zarr", "centres", "summary", "run.json", "checkpoint")
FAR_AWAY = ("/dev/null", "nowhere", "/")


def prepare_outs(folder: Path) -> dict[str, Any]:
    """A result and one that was left unfinished, of the same rows; gives their labels, and what each command gives."""
    wanted = {}
    for name in ("result", "unfinished"):
        place = folder / name
        place.mkdir(parents=True)
        convert_csv(place / "X.zarr")
        (place / "truth.csv").write_text("".join(f"{i % 3}\n" for i in range(72)))
        if name == "result":
            dmmc.fit(place / "X.zarr", 3, out=place / "out", scores=True, n_jobs=1, method="cpmmc")
            dmmc.fit(make_rows()[::-1], 3, out=place / "other", n_jobs=1, method="cpmmc")
        else:
            for rows, out in ((place / "X.zarr", place / "out"), (make_rows()[::-1], place / "other")):
                with suppress(Stop):
                    dmmc.fit(rows, 3, out=out, n_jobs=1, callbacks=stop_after(2), method="cpmmc")
        labels = dmmc.fit(place / "X.zarr", 3, n_jobs=1, method="cpmmc").labels.tolist()
        shutil.copytree(place, folder / "unaltered")
        gave = [done.gave if done.code == 0 else None for done in run_commands(folder / "unaltered")]
        shutil.rmtree(folder / "unaltered")
        wanted[name] = {"labels": labels, "gave": gave}
    return wanted


# ----------------------------------------------------------------------------------------------------- alterations


def alter_out(source: Path, target: Path, rng: Random) -> str:
    shutil.copytree(source, target)
    out = target / "out"
    how = rng.random() * 1.1
    if how >= 1.0:
        return _take_from_another(target, rng)
    if how < 0.1:
        return f"beside it, {_put_odd(target / pick(rng, ('.out.lock', '.out.partial', '.out.old', '.out.new')), rng)}"
    if how < 0.2:
        return _replace(pick(rng, [out, *sorted(out.iterdir())]), rng)
    if how < 0.3:
        path = pick(rng, [out, *sorted(out.rglob("*"))])
        path.chmod(pick(rng, (0o000, 0o000, 0o444)))
        return f"no permission for {path.relative_to(target)}"
    if how < 0.5 and (out / "summary").exists():
        return _alter_summary(out / "summary", rng)
    described = [path for path in list_files(out) if path.suffix in (".json", ".jsonl")]
    if how < 0.75:
        path = pick(rng, described)
        return _alter_lines(path, rng) if path.suffix == ".jsonl" else alter_json_file(path, rng)
    plain = [path for path in list_files(out) if "checkpoint" not in path.parts and "model" not in path.parts]
    return alter_file(pick(rng, plain), rng)


def _take_from_another(target: Path, rng: Random) -> str:
    """Part of a whole result of other rows."""
    part = pick(rng, [name for name in PARTS if (target / "other" / name).exists()])
    mine = target / "out" / part
    shutil.rmtree(mine) if mine.is_dir() else mine.unlink()
    (target / "other" / part).rename(mine)
    return f"{part} of another fit"


def _put_odd(path: Path, rng: Random) -> str:
    how = pick(rng, ("a folder", "a pipe", "a link", "a file"))
    if how == "a folder":
        path.mkdir()
    elif how == "a pipe":
        os.mkfifo(path)
    elif how == "a link":
        path.symlink_to(pick(rng, FAR_AWAY))
    else:
        path.write_bytes(b"x")
    return f"{path.name} is {how}"


def _replace(path: Path, rng: Random) -> str:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return _put_odd(path, rng)


def _alter_summary(folder: Path, rng: Random) -> str:
    """With a seal of its own: only its specification can tell."""
    content, arrays = array_folder.read(folder, "summary")
    if rng.random() < 0.6:
        arrays, words = alter_arrays(arrays, rng)
    else:
        content, words = alter_json(content, rng)
    if isinstance(content, dict):
        write_sealed(folder, "summary", content, arrays)
    return f"summary: {words}"


def _alter_lines(path: Path, rng: Random) -> str:
    lines = path.read_text().splitlines()
    number = int(rng.integers(len(lines)))
    tree, words = alter_json(json.loads(lines[number]), rng)
    lines[number] = json.dumps(tree)
    path.write_text("\n".join(lines))
    return f"{path.name}, line {number}: {words}"


# -------------------------------------------------------------------------------------------------------- commands


class Done(NamedTuple):
    """How a command ended: its exit code, what it said on stderr but for notes, and what it made."""

    code: int
    said: str
    gave: Any


def use_out(name: str, words: str, folder: Path, wanted: dict[str, Any]) -> str:
    """Run every command that reads a result folder; it gives what it gives unaltered, or one sentence and a code."""
    refused, unnoticed, labels = False, False, wanted["labels"]
    with without_override():
        for number, (done, gave) in enumerate(zip(run_commands(folder), wanted["gave"], strict=True)):
            if done.code not in CODES or (done.code and not is_sentence(done.said)):
                return f"code {done.code} of command {number}: {done.said}"
            refused |= done.code != 0 and gave is not None
            if done.code == 0 and gave not in (None, done.gave):
                if not words.startswith("labels.csv"):  # a table of labels that anyone may write: it has no checksum
                    return f"other from command {number}: {done.gave}"
                unnoticed = True
        try:
            dmmc.load(folder / "out")
            labels = read_labels(str(folder / "out")).tolist()
        except (InputError, OSError):
            refused = True
    if labels != wanted["labels"]:
        return "other"
    return "sentence" if refused else "unnoticeable" if unnoticed else "same"


def run_commands(folder: Path) -> Iterator[Done]:
    """Every command that reads a result folder, and then one that goes on with it."""
    store, out, truth = folder / "X.zarr", folder / "out", folder / "truth.csv"
    labels, pairs = folder / "labels.zarr", folder / "pairs.csv"
    yield run_command("report", out)
    yield run_command("predict", out, store, "-o", labels, made=lambda: read_labels(str(labels)).tolist())
    yield run_command("score", out, truth)
    yield run_command("score", out / "labels.csv", truth)
    yield run_command("pairs", out, store, "-n", "2", "--restarts", "0", "-o", pairs, made=pairs.read_text)
    yield run_command("fit", store, "-o", out, *FIT, "--resume")


def is_sentence(said: str) -> bool:
    return said.startswith("dmmc: ") and said.count("\n") == 1


def run_command(*arguments: object, made: Callable[[], Any] = str) -> Done:
    """Run one command in this process; `made` reads what it has written, if that is to be compared."""
    said, told = io.StringIO(), io.StringIO()
    with redirect_stderr(said), redirect_stdout(told):
        code = find_code(cli, [str(one) for one in arguments])
    lines = [line for line in said.getvalue().splitlines() if not line.startswith("dmmc: note:")]
    scores = told.getvalue() if arguments[0] == "score" else ""
    return Done(code, "\n".join([*lines, ""]), scores + str(made()) if code == 0 else None)
