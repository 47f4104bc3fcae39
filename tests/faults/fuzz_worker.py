"""Alters what dmmc has written, again and again, and notes what comes of it; a process of its own, which may crash.

Each alteration is drawn from (seed, kind, case, number), so that one can be made again alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import traceback
import warnings
import zlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from alterations import alter_arrays, alter_encoded, alter_file, alter_json, list_files, pick
from forgeries import downgrade, list_again, permute, sign
from fuzz_cases import Case, cut_into_blocks, digest, fit, make_cases, write_case
from fuzz_files import alter_source, prepare_files, use_source
from fuzz_outs import alter_out, prepare_outs, use_out
from fuzz_stores import alter_store, prepare_stores, read_store

import dmmc
from dmmc import report
from dmmc.errors import InputError
from dmmc.info import format_info, info
from dmmc.methods import METHODS
from dmmc.plain_json import plain
from dmmc.results import array_folder, atomic_files

DEADLINE = 100.0
"""Seconds for one alteration; a process that takes longer is ended by the alarm."""
MEMORY = 4 * 2**30
"""Bytes beyond what a process has: more of them are a MemoryError."""
LONGEST = 3000
"""Characters of a sentence."""
Use = Callable[..., str]


def main(arguments: list[str]) -> None:
    """Do a job that a file describes: prepare cases, or alter them."""
    job = json.loads(Path(arguments[0]).read_text())
    be_quick(reports=job["kind"] in ("prepare", "result folder"))
    if job["kind"] == "prepare":
        prepare(Path(job["folder"]))
    else:
        run(job)


def be_quick(*, reports: bool) -> None:
    """What is not looked at here is left out: waits for the disk, warnings, and the report, which has its own kind."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    os.fsync = lambda descriptor: None
    atomic_files.sync_all = lambda folder: None
    if not reports:
        report.available = lambda: False  # type: ignore[assignment]


def prepare(folder: Path) -> None:
    """Write every case, whole and stopped, and every store, and what each comes to."""
    (folder / "outs" / "wanted.json").write_text(json.dumps(prepare_outs(folder / "outs")))
    be_quick(reports=False)
    wanted = {}
    for name, case in make_cases().items():
        place = folder / "cases" / name
        place.mkdir(parents=True)
        wanted[name] = {"fit": write_case(case, place), "model": describe_model(case, place / "whole")}
    (folder / "cases" / "wanted.json").write_text(json.dumps(wanted))
    (folder / "stores" / "wanted.json").write_text(json.dumps(prepare_stores(folder / "stores")))
    (folder / "files" / "wanted.json").write_text(json.dumps(prepare_files(folder / "files")))


def run(job: dict[str, Any]) -> None:
    """Go through all alterations of a kind, from the first one that is not done; each leaves two lines."""
    kind, scratch = KINDS[job["kind"]], Path(job["scratch"])
    folder, log = Path(job["folder"]) / kind.place, open(job["log"], "a")  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (memory_used() + MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    wanted = json.loads((folder / "wanted.json").read_text())
    names = [name for name in wanted if job["only"] in name]
    for position, (number, name) in enumerate(product(range(job["count"]), names)):
        if position < job["first"] or number >= kind.share(name) * job["count"]:
            continue
        key = [job["seed"], zlib.crc32(f"{job['kind']} {name}".encode()), number]
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        words = kind.alter(folder / name, scratch / "out", np.random.default_rng(key))
        print(json.dumps({"position": position, "case": name, "number": number, "words": words}), file=log, flush=True)
        signal.setitimer(signal.ITIMER_REAL, DEADLINE)
        outcome, said = try_to_use(kind.use, name, words, scratch / "out", wanted[name])
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps({"position": position, "outcome": outcome, "said": said}), file=log, flush=True)


def memory_used() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def try_to_use(use: Use, *arguments: Any) -> tuple[str, str]:
    """What comes of an altered folder: the same, another result, a sentence, or a traceback."""
    try:
        return use(*arguments), ""
    except InputError as error:
        said = str(error)
        good = 0 < len(said) < LONGEST and "\n" not in said
        return "sentence" if good else "no sentence", said[:LONGEST]
    except BaseException as error:
        return "traceback", "".join(traceback.format_exception(error))[-LONGEST:]


# ------------------------------------------------------------------------------------- checkpoints and models


def alter_folder(kind: str, sealed: bool) -> Callable[[Path, Path, np.random.Generator], str]:
    """Makes an altered copy of a checkpoint or a model; `sealed` ones get the seal of what they then hold."""
    inside = "stopped/checkpoint" if kind == "checkpoint" else "whole/model"

    def alter(source: Path, target: Path, rng: np.random.Generator) -> str:
        shutil.copytree((source / inside).parent, target)
        folder = target / Path(inside).name
        content, arrays = array_folder.read(folder, kind)
        description = json.loads((folder / f"{kind}.json").read_text())
        how = rng.random() * (0.8 if sealed else 1.1)
        states = [name for name in ("state", "start_state") if name in arrays]
        if how < 0.3 and states:
            name = pick(rng, states)
            holder = content if name == "state" else content["start"]
            holder["search"], arrays[name], words = alter_encoded(holder["search"], arrays[name], rng)
        elif how < 0.5:
            arrays, words = alter_arrays(arrays, rng)
        elif how < 0.8:
            content, words = alter_content(content, rng)
        elif how < 0.88:
            rest = {name: description[name] for name in ("kind", "version", "arrays")}
            changed, words = alter_json(rest, rng)
            description = {**changed, "content": content} if isinstance(changed, dict) else changed
            (folder / f"{kind}.json").write_text(json.dumps(signed(description)))
            return words
        elif how >= 1.0:
            name = pick(rng, sorted(arrays))
            downgrade(folder, kind, permute(folder, name))
            return f"downgraded, {name} permuted"
        else:
            return alter_file(pick(rng, list_files(folder)), rng)
        for path in folder.glob("*.npy"):
            path.unlink()
        description = {**description, "content": content, "arrays": {}}
        sign(folder, kind, description, arrays)
        if sealed and isinstance(content, dict):
            content["seal"] = array_folder.make_seal(description)
            sign(folder, kind, description, {})
            list_again(target)
        return words

    return alter


def alter_content(content: dict[str, Any], rng: np.random.Generator) -> tuple[Any, str]:
    """One thing changed in a description; of a checkpoint mostly in its state, which is a small part of it."""
    if content.get("search") and rng.random() < 0.6:
        state, lines = content["search"]
        changed, words = alter_json(state, rng)
        return {**content, "search": [changed, lines]}, f"state.{words}"
    return alter_json(content, rng)


def signed(description: Any) -> Any:
    if isinstance(description, dict):
        description.pop("checksum", None)
        description["checksum"] = array_folder._checksum(description)
    return description


def use_checkpoint(name: str, words: str, folder: Path, wanted: dict[str, str]) -> str:
    return "same" if digest(fit(CASES[name], folder, resume=True)) == wanted["fit"] else "other"


def use_model(name: str, words: str, folder: Path, wanted: dict[str, str]) -> str:
    return "same" if describe_model(CASES[name], folder) == wanted["model"] else "other"


def describe_model(case: Case, folder: Path) -> str:
    """Load a model and do all that can be done with it."""
    model = dmmc.load(folder)
    rows = case.options["source"]
    with cut_into_blocks(case.many_blocks):
        found = [model.predict(rows), model.decision_function(rows), dmmc.propose_pairs(rows, model, 3, n_restarts=0)]
        if hasattr(model, "transform"):
            found.append(model.transform(rows))
        if getattr(model, "stream_", None) is not None:
            found.append(model.partial_fit(rows).coef_)
    return hashlib.sha256(b"".join(part.tobytes() for part in found)).hexdigest()


def use_store(name: str, words: str, folder: Path, wanted: dict[str, Any]) -> str:
    """Look at a store and read it; where what is read is another matrix, dmmc info has said that it might be."""
    found = info(folder / "X.zarr", check=True)
    format_info(found)
    json.dumps(plain(found))
    if read_store(folder / "X.zarr") == wanted["digest"]:
        return "same"
    noticed = wanted["sealed"] or (wanted["checksums"] and words.startswith("chunk"))
    return "other" if noticed else "unnoticeable"


def share_of_case(name: str) -> float:
    """The two cases of a method are altered most."""
    return 1.0 if name.partition(",")[0] in METHODS else 0.4


def share_evenly(name: str) -> float:
    return 1.0


class Kind(NamedTuple):
    """What is altered, and what is done with it then."""

    place: str
    share: Callable[[str], float]
    """Of a case: how many of the alterations it gets."""
    alter: Callable[[Path, Path, np.random.Generator], str]
    use: Use


CASES = make_cases()
KINDS = {
    "checkpoint": Kind("cases", share_of_case, alter_folder("checkpoint", sealed=False), use_checkpoint),
    "sealed checkpoint": Kind("cases", share_of_case, alter_folder("checkpoint", sealed=True), use_checkpoint),
    "model": Kind("cases", share_of_case, alter_folder("model", sealed=False), use_model),
    "sealed model": Kind("cases", share_of_case, alter_folder("model", sealed=True), use_model),
    "file": Kind("files", share_evenly, alter_source, use_source),
    "store": Kind("stores", share_evenly, alter_store, use_store),
    "result folder": Kind("outs", share_evenly, alter_out, use_out),
}


if __name__ == "__main__":
    main(sys.argv[1:])
