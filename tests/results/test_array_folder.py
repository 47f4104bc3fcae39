"""Models on disk: what is written is what is read, and nothing that was tampered with gets in."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from forgeries import Change, put
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import dmmc
from dmmc.results import array_folder, belonging

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")


@pytest.fixture(scope="module")
def digits() -> Any:
    import data_sets

    return data_sets.load("digits")[0].astype(np.float32)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory, digits: Any) -> Path:
    """OUT/model of a fit with three clusters; to be copied, not changed."""
    out = tmp_path_factory.mktemp("model") / "out"
    names = [f"pixel {i}" for i in range(64)]
    dmmc.fit(pd.DataFrame(digits[:300], columns=names), 3, out=out, method="cpmmc")
    return out / "model"


# --------------------------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_a_loaded_model_predicts_the_same_bits(k: int, kind: Callable[..., Any], digits: Any, tmp_path: Path) -> None:
    rows = kind(digits)
    run = dmmc.fit(rows[:1000], k, method="cpmmc")
    loaded = dmmc.load(run.save(tmp_path / "out"))
    assert np.array_equal(loaded.predict(rows), run.model.predict(rows))
    assert np.array_equal(loaded.predict(rows[:1000]), run.labels)
    wanted, found = run.model.decision_function(rows), loaded.decision_function(rows)
    assert wanted.tobytes() == found.tobytes()
    assert loaded.coef_.tobytes() == run.model.coef_.tobytes()
    assert np.array_equal(dmmc.load(tmp_path / "out" / "model").predict(rows), loaded.predict(rows))


def test_a_loaded_model_has_what_the_fitted_one_had(digits: Any, tmp_path: Path) -> None:
    params = {"C": 7.5, "balance": 0.2, "max_size": 3.0, "order": "inside", "max_iter": 40, "scale": "standard"}
    run = dmmc.fit(digits, 4, random_state=5, **params)
    loaded = dmmc.load(run.save(tmp_path / "out"))
    assert loaded.get_params() == run.model.get_params()
    for name in ("objective_", "gap_", "n_iter_", "n_features_in_", "choices_"):
        assert getattr(loaded, name) == getattr(run.model, name), name
    assert not hasattr(loaded, "feature_names_in_")


def test_feature_names_are_kept(model_folder: Path, digits: Any) -> None:
    loaded = dmmc.load(model_folder)
    names = [f"pixel {i}" for i in range(64)]
    assert loaded.feature_names_in_.tolist() == names
    assert loaded.feature_names_in_.dtype == object
    frame = pd.DataFrame(digits, columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels = loaded.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[names[::-1]])
    with pytest.warns(UserWarning, match="feature names"):
        assert np.array_equal(loaded.predict(digits), labels)


def test_labels_generators_and_callbacks_do_not_keep_a_model_from_being_saved(digits: Any, tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    start = np.arange(len(digits)) % 3
    run = dmmc.fit(
        digits, 3, init=start, random_state=np.random.RandomState(3), callbacks=heard.append, out=tmp_path / "out"
    )
    assert [line["iteration"] for line in heard] == list(range(1, run.info["passes"] + 1))
    loaded = dmmc.load(tmp_path / "out")
    assert np.array_equal(loaded.predict(digits), run.labels)
    params = loaded.get_params()
    assert params["callbacks"] is None
    assert params["random_state"] == run.info["seed"] == run.choices["random_state"]
    assert run.info["parameters"]["init"] == run.choices["init"] == "labels"


def test_a_loaded_model_can_be_cloned_fitted_and_pickled(model_folder: Path, digits: Any) -> None:
    loaded = dmmc.load(model_folder)
    again = clone(loaded)
    assert not hasattr(again, "coef_")
    assert again.get_params() == loaded.get_params()
    assert np.array_equal(again.fit(digits[:300]).labels_, loaded.fit(digits[:300]).labels_)
    run = dmmc.fit(digits[:300], 3, progress=lambda event: None, method="cpmmc")
    assert np.array_equal(pickle.loads(pickle.dumps(run.model)).predict(digits), run.model.predict(digits))


def test_a_model_of_version_1_is_still_read_and_labels_the_digits_as_it_did(digits: Any) -> None:
    """Written by dmmc 0.1 with `dmmc.fit(digits, 10, random_state=0).save(...)`; never to be written again."""
    folder = Path(__file__).parents[1] / "fixtures" / "model-v1"
    assert json.loads((folder / "model" / "model.json").read_text())["version"] == 1
    model = dmmc.load(folder)
    assert model.get_params()["n_clusters"] == 10
    assert np.array_equal(model.predict(digits), np.load(folder / "labels.npy"))


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    content = {"a": [1, 2.5, None, True, "ü\ud800"], "b": {"c": np.float32(0.5), "d": np.inf, "e": (1, np.int8(2))}}
    arrays = {
        "empty": np.empty((0, 3)),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "words": np.array(["a", "bc"]),
        "flags": np.array([True, False]),
    }
    array_folder.write(tmp_path / "x", "thing", content, arrays)
    found, read = array_folder.read(tmp_path / "x", "thing")
    assert found == {"a": [1, 2.5, None, True, "ü\ud800"], "b": {"c": 0.5, "d": None, "e": [1, 2]}}
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(read[name], array)
        assert read[name].flags.writeable
    with pytest.raises(dmmc.InputError, match=r"other\.json is missing"):
        array_folder.read(tmp_path / "x", "other")


def test_a_failed_write_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array_folder.write(tmp_path / "x", "thing", {"n": 1}, {"a": np.arange(3)})
    for step in range(1, 4):  # each fsync in turn
        calls: list[int] = []

        def fail(descriptor: int, calls: list[int] = calls, step: int = step) -> None:
            calls.append(descriptor)
            if len(calls) == step:
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(OSError, match="No space"):
                array_folder.write(tmp_path / "x", "thing", {"n": 2}, {"a": np.arange(4), "b": np.arange(5)})
        assert array_folder.read(tmp_path / "x", "thing")[0] == {"n": 1}
        assert [path.name for path in tmp_path.iterdir()] == ["x"]
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        array_folder.write(tmp_path / "x", "thing", {}, {"a": np.array([object()])})
    assert array_folder.read(tmp_path / "x", "thing")[0] == {"n": 1}


WRITER = """
import os, signal, sys
from pathlib import Path
import numpy as np
from dmmc.results import array_folder, atomic_files

folder, exchange = Path(sys.argv[1]), sys.argv[2] == "exchange"
if not exchange:
    atomic_files._exchange = lambda one, other: False
FILES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
kill = 0
while True:
    kill += 1
    array_folder.write(folder / "x", "thing", {"n": 1}, {"a": np.arange(3)})
    child = os.fork()
    if child == 0:
        seen = [0]
        def hook(event, arguments):
            if event in FILES:
                seen[0] += 1
                if seen[0] == kill:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        array_folder.write(folder / "x", "thing", {"n": 2}, {"a": np.arange(4)})
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    atomic_files.restore(folder / "x")
    content, arrays = array_folder.read(folder / "x", "thing")
    assert len(arrays["a"]) == content["n"] + 2
    print(content["n"], flush=True)
    if code == 0:
        break
    assert code == -signal.SIGKILL
"""


@pytest.mark.parametrize("how", ["exchange", "rename"])
def test_a_kill_between_any_two_operations_leaves_the_old_or_the_new_folder(how: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(tmp_path), how],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(dmmc.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert len(found) >= 8
    assert found == sorted(found)
    assert {"1", "2"} == set(found)


# ---------------------------------------------------------------------------------------------------- damage


FILES = ("model.json", "coef.npy", "intercept.npy")
DAMAGE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def same_or_refused(folder: Path, original: Path) -> None:
    """A sentence or the right answer."""
    try:
        found = dmmc.load(folder)
    except dmmc.InputError:
        return
    wanted = dmmc.load(original)
    assert found.coef_.tobytes() == wanted.coef_.tobytes()
    assert found.intercept_.tobytes() == wanted.intercept_.tobytes()
    assert found.get_params() == wanted.get_params()
    assert found.feature_names_in_.tolist() == wanted.feature_names_in_.tolist()


@DAMAGE
@given(st.sampled_from(FILES), st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 7)), min_size=1, max_size=4))
def test_flipped_bits_are_noticed(model_folder: Path, tmp_path: Path, name: str, flips: list[tuple[int, int]]) -> None:
    shutil.copytree(model_folder, tmp_path / "model", dirs_exist_ok=True)
    data = bytearray((tmp_path / "model" / name).read_bytes())
    for place, bit in flips:
        data[place % len(data)] ^= 1 << bit
    (tmp_path / "model" / name).write_bytes(bytes(data))
    same_or_refused(tmp_path / "model", model_folder)


@DAMAGE
@given(st.sampled_from(FILES), st.integers(0, 2**20), st.binary(max_size=20))
def test_files_that_are_cut_or_go_on_are_noticed(
    model_folder: Path, tmp_path: Path, name: str, place: int, more: bytes
) -> None:
    shutil.copytree(model_folder, tmp_path / "model", dirs_exist_ok=True)
    data = (tmp_path / "model" / name).read_bytes()
    (tmp_path / "model" / name).write_bytes(data[: place % (len(data) + 1)] + more)
    same_or_refused(tmp_path / "model", model_folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("what", ["missing", "empty", "folder", "link", "pipe"])
def test_files_that_are_something_else_are_refused(name: str, what: str, model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    path = tmp_path / "model" / name
    path.rename(tmp_path / name)
    if what == "empty":
        path.touch()
    elif what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to(tmp_path / name)
    elif what == "pipe":
        os.mkfifo(path)
    with pytest.raises(dmmc.InputError, match=name):
        dmmc.load(tmp_path / "model")


# ------------------------------------------------------------------------------------ made up, with right checksums


def forged(source: Path, target: Path, change: Change, files: dict[str, bytes] | None = None) -> Path:
    """A copy of a model with a changed description, all sizes and checksums right."""
    shutil.copytree(source, target)
    path = target / "model.json"
    description = json.loads(path.read_text())
    del description["checksum"]
    for name, data in (files or {}).items():
        (target / f"{name}.npy").write_bytes(data)
        entry = {"file": f"{name}.npy", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        description["arrays"][name] = entry
    change(description)
    description["checksum"] = array_folder._checksum(description)
    path.write_text(json.dumps(description))
    return target


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def predict_if_read(folder: Path, rows: Any) -> Any:
    """What the model of a folder predicts; None where it is refused."""
    try:
        loaded = dmmc.load(folder)
    except dmmc.InputError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loaded.predict(rows)


def reseal(description: dict[str, Any]) -> None:
    """Give a changed description the seal of what it holds."""
    description["content"]["seal"] = array_folder.make_seal(description)


def unseal(description: dict[str, Any], version: int) -> None:
    """Make it look like one of an earlier version."""
    content = description["content"]
    del content["seal"], content["margin_scale"]
    content["params"] = {name: value for name, value in content["params"].items() if name not in belonging.LATER}
    description["version"] = version


def test_a_changed_number_with_right_checksums_does_not_have_the_seal(model_folder: Path, tmp_path: Path) -> None:
    coef = np.load(model_folder / "coef.npy")
    for number, (change, files) in enumerate(
        [
            (lambda description: None, {"coef": npy(2.0 * coef)}),
            (lambda description: None, {"intercept": npy(np.zeros(3)), "more": npy(np.zeros(3))}),
            (put(99, "content", "n_iter"), {}),
            (put(0.5, "content", "params", "min_size"), {}),
            (put("x" * 64, "content", "choices", "fingerprint"), {}),
            (put("0" * 64, "content", "seal"), {}),
            (put(None, "content", "seal"), {}),
            (lambda description: description["content"].pop("seal"), {}),
            (put(2, "version"), {}),
            (put(1, "version"), {}),
        ]
    ):
        with pytest.raises(dmmc.InputError, match=r"model\.json is damaged: its seal is not that of what it holds"):
            dmmc.load(forged(model_folder, tmp_path / str(number), change, files))


@pytest.mark.parametrize("version", [1, 2])
def test_a_model_from_before_seals_is_read_but_compared_with_its_specification(
    version: int, model_folder: Path, tmp_path: Path, digits: Any
) -> None:
    folder = forged(model_folder, tmp_path / "old", lambda description: unseal(description, version))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = dmmc.load(model_folder).predict(digits)
        assert np.array_equal(dmmc.load(folder).predict(digits), wanted)
    with pytest.raises(dmmc.InputError, match="coef has shape"):
        dmmc.load(forged(folder, tmp_path / "bad", lambda description: None, {"coef": npy(np.zeros((2, 64)))}))


ODD: list[Any] = [None, True, 3, -1, 2.5, 1e308, "x", [], [1], {}, {"a": 1}, 10**400, nested(300)]
PLACES = [
    ("kind",),
    ("version",),
    ("content",),
    ("arrays",),
    ("arrays", "coef"),
    ("arrays", "coef", "file"),
    ("arrays", "coef", "bytes"),
    ("arrays", "coef", "sha256"),
    ("content", "estimator"),
    ("content", "params"),
    ("content", "choices"),
    ("content", "objective"),
    ("content", "gap"),
    ("content", "n_iter"),
    ("content", "feature_names"),
    *(("content", "params", name) for name in dmmc.CuttingPlaneMMC().get_params()),
    ("content", "params", "made up"),
]


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_description_with_odd_values_is_refused_or_harmless(
    place: tuple[str, ...], model_folder: Path, tmp_path: Path, digits: Any
) -> None:
    right = dmmc.load(model_folder).predict(digits)
    for number, value in enumerate(ODD):
        folder = forged(model_folder, tmp_path / str(number), put(value, *place))
        labels = predict_if_read(folder, digits)
        assert labels is None or np.array_equal(labels, right), value


@pytest.mark.parametrize("key", ["kind", "version", "content", "arrays"])
def test_a_description_that_lacks_something_is_refused(key: str, model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(dmmc.InputError):
        dmmc.load(forged(model_folder, tmp_path / "model", lambda description: description.pop(key)))


@pytest.mark.parametrize("key", ["estimator", "params", "choices", "feature_names", "objective", "n_iter"])
def test_a_model_that_lacks_something_is_refused(key: str, model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(dmmc.InputError):
        dmmc.load(forged(model_folder, tmp_path / "model", lambda description: description["content"].pop(key)))


@pytest.mark.parametrize(
    "file",
    ["../x.npy", "/etc/passwd", "./coef.npy", "a/../coef.npy", "coef.npy\0", "COEF.npy", "", "..", "intercept.npy"],
)
def test_a_description_cannot_reach_other_files(file: str, model_folder: Path, tmp_path: Path) -> None:
    shutil.copy(model_folder / "coef.npy", tmp_path / "x.npy")
    folder = forged(model_folder, tmp_path / "model", put(file, "arrays", "coef", "file"))
    with pytest.raises(dmmc.InputError, match="only files of its own are read"):
        dmmc.load(folder)


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "..", "a/b", "", "x\n"])
def test_a_description_cannot_name_arrays_as_paths(name: str, model_folder: Path, tmp_path: Path) -> None:
    entry = {"file": f"{name}.npy", "bytes": 1, "sha256": ""}
    with pytest.raises(dmmc.InputError, match="only files of its own are read"):
        dmmc.load(forged(model_folder, tmp_path / "model", put(entry, "arrays", name)))


def npy(array: Any, pickled: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


class Bomb:
    """Unpickling it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin1")


ARRAYS = {
    "a structured dtype": lambda: npy(np.zeros((3, 64), dtype=[("a", "f8")])),
    "dates": lambda: npy(np.zeros((3, 64), "M8[s]")),
    "complex numbers": lambda: npy(np.zeros((3, 64), complex)),
    "bytes": lambda: npy(np.zeros((3, 64), "S8")),
    "float32": lambda: npy(np.zeros((3, 64), np.float32)),
    "the other byte order": lambda: npy(np.zeros((3, 64), ">f8")),
    "text": lambda: npy(np.full((3, 64), "x")),
    "a NaN": lambda: npy(np.full((3, 64), np.nan)),
    "an infinity": lambda: npy(np.full((3, 64), -np.inf)),
    "one dimension": lambda: npy(np.zeros(64)),
    "three dimensions": lambda: npy(np.zeros((3, 64, 1))),
    "no dimension": lambda: npy(np.zeros(())),
    "too few clusters": lambda: npy(np.zeros((2, 64))),
    "no features": lambda: npy(np.zeros((3, 0))),
    "other features than names": lambda: npy(np.zeros((3, 63))),
    "a huge shape": lambda: header("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 1000000000000)}"),
    "a negative shape": lambda: header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 64)}"),
    "a shape of words": lambda: header("{'descr': '<f8', 'fortran_order': False, 'shape': ('a',)}"),
    "no shape": lambda: header("{'descr': '<f8', 'fortran_order': False}"),
    "a header of code": lambda: header("__import__('os').abort()"),
    "a deep header": lambda: header("(" * 9000),
    "a long header": lambda: header("{" + " " * 60000 + "}"),
    "half a header": lambda: header("{'descr': '<f8',")[:20],
    "a header of bytes": lambda: header("\xff\x00'\"\n\\"),
    "another version": lambda: b"\x93NUMPY\x07\x00" + b"\0" * 100,
    "a zip": lambda: b"PK\x03\x04" + b"\0" * 100,
    "a bare pickle": lambda: pickle.dumps({"a": 1}),
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("what", ARRAYS)
def test_an_array_that_is_not_one_of_a_model_is_refused(what: str, model_folder: Path, tmp_path: Path) -> None:
    folder = forged(model_folder, tmp_path / "model", lambda description: None, {"coef": ARRAYS[what]()})
    with pytest.raises(dmmc.InputError):
        dmmc.load(folder)


def test_a_pickle_in_a_model_is_never_run(model_folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "was run"
    np.load(io.BytesIO(npy(np.array([Bomb(mark)], object), pickled=True)), allow_pickle=True)
    assert mark.exists()  # it works
    mark.unlink()
    for data in (npy(np.array([Bomb(mark)], object), pickled=True), pickle.dumps(Bomb(mark))):
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        with pytest.raises(dmmc.InputError, match="not a plain array"):
            dmmc.load(forged(model_folder, tmp_path / "model", lambda description: None, {"coef": data}))
    assert not mark.exists()


@DAMAGE
@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_in_the_place_of_an_array_are_refused(model_folder: Path, tmp_path: Path, data: bytes) -> None:
    shutil.rmtree(tmp_path / "model", ignore_errors=True)
    with pytest.raises(dmmc.InputError):
        dmmc.load(forged(model_folder, tmp_path / "model", lambda d: None, {"coef": b"\x93NUMPY\x01\x00" + data}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@DAMAGE
@given(st.dictionaries(st.sampled_from(["estimator", "params", "choices", "gap", "feature_names"]), JSON))
def test_any_content_is_refused_or_harmless(
    model_folder: Path, tmp_path: Path, digits: Any, content: dict[str, Any]
) -> None:
    shutil.rmtree(tmp_path / "model", ignore_errors=True)
    folder = forged(model_folder, tmp_path / "model", lambda description: description["content"].update(content))
    labels = predict_if_read(folder, digits[:10])
    assert labels is None or labels.shape == (10,)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"nul",
        b"[]",
        b"3",
        b'{"kind": "model", "version": NaN}',
        b'{"kind": "model", "version": ' + b"9" * 5000 + b"}",
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
    ],
)
def test_a_description_that_is_not_one_is_refused(text: bytes, model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    (tmp_path / "model" / "model.json").write_bytes(text)
    with pytest.raises(dmmc.InputError, match=r"model\.json"):
        dmmc.load(tmp_path / "model")


def test_a_description_larger_than_any_is_not_even_read(model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    os.truncate(tmp_path / "model" / "model.json", array_folder.LARGEST_DESCRIPTION + 1)
    with pytest.raises(dmmc.InputError, match="larger than what was written"):
        dmmc.load(tmp_path / "model")


def test_an_array_larger_than_said_or_than_memory_is_refused(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(model_folder, tmp_path / "model")
    os.truncate(tmp_path / "model" / "coef.npy", 2**43)  # a hole: takes no space
    with pytest.raises(dmmc.InputError, match="larger than what was written"):
        dmmc.load(tmp_path / "model")

    def too_much(path: Path) -> bytes:
        raise MemoryError

    monkeypatch.setattr(Path, "read_bytes", too_much)
    with pytest.raises(dmmc.InputError, match="does not fit into memory"):
        dmmc.load(model_folder)


def test_a_newer_model_is_refused_with_what_to_do(model_folder: Path, tmp_path: Path) -> None:
    folder = forged(model_folder, tmp_path / "model", put(array_folder.VERSION + 1, "version"))
    newest = array_folder.VERSION
    wanted = rf"has version {newest + 1}; this dmmc reads up to {newest}: install a newer one\."
    with pytest.raises(dmmc.InputError, match=wanted):
        dmmc.load(folder)
