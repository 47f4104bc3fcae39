"""Result folders, finished and not, in which something is altered that no checksum protects; then commands are run."""

from __future__ import annotations

import ctypes
import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from alterations import Random, alter_arrays, alter_file, alter_json, alter_json_file, list_files, pick
from forgeries import write_sealed
from fuzz_stores import convert_csv
from stops import Stop, stop_after

import dmmc
from dmmc.app.cli import cli
from dmmc.app.exit_codes import find_code
from dmmc.errors import InputError
from dmmc.results import array_folder
from dmmc.results.label_arrays import read_labels

CODES = (0, 2, 4)
"""Done; bad input; the disk failed."""
FIT = ("-k", "3", "--quiet", "--n-jobs", "1")
FAR_AWAY = ("/dev/null", "nowhere", "/")


def prepare_outs(folder: Path) -> dict[str, Any]:
    """A result and one that was left unfinished, of the same rows; gives the labels that both are to have."""
    wanted = {}
    for name in ("result", "unfinished"):
        place = folder / name
        place.mkdir(parents=True)
        convert_csv(place / "X.zarr")
        (place / "truth.csv").write_text("".join(f"{i % 3}\n" for i in range(72)))
        if name == "result":
            dmmc.fit(place / "X.zarr", 3, out=place / "out", scores=True, n_jobs=1)
        else:
            with suppress(Stop):
                dmmc.fit(place / "X.zarr", 3, out=place / "out", n_jobs=1, callbacks=stop_after(2))
        wanted[name] = dmmc.fit(place / "X.zarr", 3, n_jobs=1).labels.tolist()
    return wanted


# ----------------------------------------------------------------------------------------------------- alterations


def alter_out(source: Path, target: Path, rng: Random) -> str:
    shutil.copytree(source, target)
    out = target / "out"
    how = rng.random()
    if how < 0.1:
        return f"beside it, {_put_odd(target / pick(rng, ('.out.lock', '.out.partial', '.out.old', '.out.new')), rng)}"
    if how < 0.2:
        return _replace(pick(rng, [out, *out.iterdir()]), rng)
    if how < 0.3:
        path = pick(rng, [out, *out.rglob("*")])
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


def use_out(name: str, words: str, folder: Path, wanted: list[int]) -> str:
    """Run every command that reads a result folder; a failure is one sentence, and a code that is documented."""
    store, out, refused = folder / "X.zarr", folder / "out", []
    with without_override():
        for number, command in enumerate(
            [
                ("report", out),
                ("predict", out, store, "-o", folder / "labels.zarr"),
                ("score", out, folder / "truth.csv"),
                ("score", out / "labels.csv", folder / "truth.csv"),
                ("pairs", out, store, "-n", "2", "--restarts", "0", "-o", folder / "pairs.csv"),
                ("fit", store, "-o", out, *FIT, "--resume"),
            ]
        ):
            code, said = run_command(*command)
            if code not in CODES or (code and (not said.startswith("dmmc: ") or said.count("\n") != 1)):
                return f"code {code} of command {number}: {said}"
            refused += [said] if code else []
        try:
            dmmc.load(out)
            labels = read_labels(str(out)).tolist()
        except (InputError, OSError) as error:
            refused.append(str(error))
            labels = wanted
    if labels != wanted:
        return "other"
    return "sentence" if refused else "same"


def run_command(*arguments: object) -> tuple[int, str]:
    """Its exit code, and what it said on stderr but for notes."""
    said = io.StringIO()
    with redirect_stderr(said), redirect_stdout(io.StringIO()):
        code = find_code(cli, [str(one) for one in arguments])
    lines = [line for line in said.getvalue().splitlines() if not line.startswith("dmmc: note:")]
    return code, "\n".join([*lines, ""])


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


@contextmanager
def without_override() -> Iterator[None]:
    """Let the superuser heed permissions of files as others do (capabilities 1 and 2 of Linux)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(0x20080522, 0), (_Sets * 2)()
    libc.capget(ctypes.byref(header), sets)
    before = sets[0].effective
    sets[0].effective = before & ~0b110
    libc.capset(ctypes.byref(header), sets)
    yield
    sets[0].effective = before
    libc.capset(ctypes.byref(header), sets)
