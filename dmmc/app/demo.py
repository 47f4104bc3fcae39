"""`dmmc demo`: the whole story on bundled data."""

import json
import shlex
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from dmmc.errors import InputError


def tell(out: Path, say: Callable[[str], object]) -> None:
    """Cluster scikit-learn's digits with dmmc and with k-means, print both, write a report."""
    if out.exists() and not _of_a_demo(out):
        raise InputError(f"{out} exists; remove it, or say dmmc demo -o ANOTHER.")
    say("1,797 handwritten digits, 8 x 8 pixels, to be sorted into 10 clusters without a label.")
    say("(The first run compiles, which takes some seconds; later ones do not.)\n")
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits

    from dmmc.app import api
    from dmmc.choose.tell import tell_choice
    from dmmc.report import MISSING
    from dmmc.results.metrics import score

    rows, truth = load_digits(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api.fit(rows[:200], 10)  # compiles before the clock starts
    began = time.perf_counter()
    peer = KMeans(10, n_init=10, random_state=0).fit_predict(rows)
    between = time.perf_counter()
    command = shlex.join(["dmmc", "demo", "-o", str(out)])
    run = api.fit(rows, 10, out=out, overwrite=True, image_shape=(8, 8), command=command)
    seconds = {"k-means (10 starts)": between - began, "maximum margin (dmmc)": run.info["timings"]["total"]}
    say(f"{'':24s}{'accuracy':>10s}{'NMI':>8s}{'ARI':>8s}{'seconds':>9s}")
    for (name, taken), labels in zip(seconds.items(), (peer, run.labels), strict=True):
        found = score(labels, truth)
        say(f"{name:24s}{found['accuracy']:10.3f}{found['nmi']:8.3f}{found['ari']:8.3f}{taken:9.2f}")
    say("\nThe labels were used for this table only. Of its own candidates dmmc says:")
    for line in tell_choice(run.choices):
        say(f"  {line}")
    say("")
    report = out / "report.html"
    if report.exists():
        say(f"Look at       {report}")
    else:
        say(f"No report was written: {MISSING}")
    name = "dmmc" if shutil.which("dmmc") else str(Path(sys.executable).with_name("dmmc"))
    say(f"Try next      {name} fit YOUR.csv -k 10 -o result")
    say(f"              {name} predict result OTHER.csv -o labels.csv")


def _of_a_demo(out: Path) -> bool:
    """Whether a folder is what an earlier demo wrote: then this one may replace it."""
    try:
        run = json.loads((out / "run.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(run, dict) and str(run.get("command", "")).startswith("dmmc demo")
