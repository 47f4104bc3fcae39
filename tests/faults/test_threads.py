"""Two fits at once on threads of one process, and fits in processes that were forked: the same bits, or a sentence."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import dask
import pytest
from fault_tools import bits, blobs
from threadpoolctl import threadpool_info, threadpool_limits
from waits import scale

import dmmc

KINDS: dict[str, dict[str, Any]] = {
    "auto": {},
    "cpmmc": {"method": "cpmmc"},
    "spectral": {"features": "spectral"},
    "nystroem": {"features": "nystroem", "n_components": 20},
    "graph start": {"init": "graph"},
    "smmc": {"method": "smmc"},
    "mmc-sg": {"method": "mmc-sg", "max_iter": 10},
    "fast-evommc": {"method": "fast-evommc", "max_iter": 10},
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def fit(kind: str, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmmc.ClusteringWarning)
        return dmmc.fit(blobs(600), 3, **KINDS[kind], **options)


# --------------------------------------------------------------------------------------------------------- threads


@each_kind
@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
def test_fits_on_two_threads_give_the_bits_of_one(kind: str) -> None:
    wanted = bits(fit(kind))
    ready = threading.Barrier(2, timeout=60)

    def begin_together(event: dict[str, Any]) -> None:
        if event["phase"] == "measure":
            ready.wait()

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(dmmc.fit, blobs(600), 3, progress=begin_together, **KINDS[kind]) for _ in range(2)]
        assert [bits(one.result()) == wanted for one in both] == [True, True]


@pytest.fixture
def interleave() -> Iterator[Callable[..., tuple[Any, Any]]]:
    """``interleave(first, second, look) -> runs``: the second begins in the first and ends after it; looks then."""
    with ThreadPoolExecutor(2) as pool:

        def run(first: dict[str, Any], second: dict[str, Any], look: Callable[[], Any] = bool) -> tuple[Any, Any]:
            first_in, second_in, first_out = (threading.Event() for _ in range(3))

            def of_first(event: dict[str, Any]) -> None:
                if event["phase"] == "start":
                    first_in.set()
                    assert second_in.wait(60)

            def of_second(event: dict[str, Any]) -> None:
                if event["phase"] == "start":
                    second_in.set()
                    assert first_out.wait(60)
                    look()

            one = pool.submit(dmmc.fit, blobs(600), 3, method="cpmmc", progress=of_first, **first)
            assert first_in.wait(60)
            other = pool.submit(dmmc.fit, blobs(600), 3, method="cpmmc", progress=of_second, **second)
            done = one.result()
            first_out.set()
            return done, other.result()

        yield run


def test_each_of_two_fits_hears_its_own_warnings_and_the_process_hears_as_before(
    interleave: Callable[..., tuple[Any, Any]],
) -> None:
    fit("cpmmc")  # imports of libraries change filters, too
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        filters, show = list(warnings.filters), warnings.showwarning
        one, other = interleave({"max_iter": 1}, {"max_iter": 2})
        assert (list(warnings.filters), warnings.showwarning) == (filters, show)
        warnings.warn("still heard", UserWarning, stacklevel=1)
    assert ["max_iter=1" in text for text in one.info["warnings"]] == [True]
    assert ["max_iter=2" in text for text in other.info["warnings"]] == [True]
    told = [str(warning.message) for warning in heard]
    assert sum("max_iter=1" in text for text in told) == sum("max_iter=2" in text for text in told) == 1
    assert told[-1] == "still heard"


def count_blas_threads() -> dict[str, int]:
    """Threads of each library for linear algebra that is loaded."""
    return {
        library["filepath"]: library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_linear_algebra_has_one_thread_until_the_last_fit_has_ended_and_then_as_many_as_before(
    interleave: Callable[..., tuple[Any, Any]],
) -> None:
    found: list[dict[str, int]] = []
    fit("cpmmc")  # loads all libraries
    with threadpool_limits(2, user_api="blas"):
        before = count_blas_threads()
        interleave({}, {}, lambda: found.append(count_blas_threads()))
        assert found == [dict.fromkeys(before, 1)]
        assert count_blas_threads() == before


@pytest.mark.slow
def test_two_fits_with_workers_of_their_own_leave_the_process_as_it_was(
    interleave: Callable[..., tuple[Any, Any]],
) -> None:
    import distributed  # noqa: F401 - its settings are there from now on

    main, environment, settings = sys.modules["__main__"], dict(os.environ), str(dask.config.config)
    before = main.__spec__, getattr(main, "__file__", None)
    one, other = interleave({"workers": 1}, {"workers": 1})
    assert bits(one) == bits(other) == bits(fit("cpmmc"))
    assert (main.__spec__, getattr(main, "__file__", None)) == before
    assert dict(os.environ) == environment
    assert str(dask.config.config) == settings


# ----------------------------------------------------------------------------------------------------------- forks


def in_a_fork(do: Callable[[], bool]) -> int:
    """Exit code of a forked process: 0 where `do` is true there; a hang is a failure."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = 0 if do() else 71
        finally:
            os._exit(code)
    for seconds in (60.0, 60.0 * scale(1)):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return pytest.fail("it hangs")


@each_kind
def test_a_fork_gives_the_bits_of_the_process_that_has_fitted_before(kind: str) -> None:
    wanted = bits(fit(kind))
    assert in_a_fork(lambda: bits(fit(kind)) == wanted) == 0


def test_a_fork_predicts_with_the_model_of_the_process_that_it_comes_from() -> None:
    X, run = blobs(600), fit("spectral")
    wanted = run.model.predict(X).tobytes()
    assert in_a_fork(lambda: run.model.predict(X).tobytes() == wanted) == 0


def test_a_fork_in_the_middle_of_a_fit_can_fit() -> None:
    wanted, codes = bits(fit("spectral")), []

    def fork_in_search(event: dict[str, Any]) -> None:
        if event.get("iteration") == 1:
            codes.append(in_a_fork(lambda: bits(fit("spectral")) == wanted))

    fit("spectral", progress=fork_in_search)
    assert codes == [0]


@pytest.mark.slow
def test_a_cluster_in_a_fork_of_a_process_that_has_used_one_is_refused_in_a_sentence() -> None:
    wanted = bits(fit("cpmmc", workers=1))

    def refuses_workers_and_fits_without() -> bool:
        with pytest.raises(dmmc.InputError, match="a cluster cannot be used in a process that was forked"):
            fit("cpmmc", workers=1)
        return bits(fit("cpmmc")) == wanted

    assert in_a_fork(refuses_workers_and_fits_without) == 0


@pytest.mark.slow
def test_umap_in_a_fork_of_a_process_that_has_used_it_is_refused_in_a_sentence() -> None:
    if find_spec("umap") is None:
        pytest.skip("umap-learn is not installed")
    fit("cpmmc", features="umap")

    def refuses() -> bool:
        with pytest.raises(dmmc.InputError, match="features='umap' cannot be made in a process that was forked"):
            fit("cpmmc", features="umap")
        return True

    assert in_a_fork(refuses) == 0


def test_faiss_has_as_many_threads_after_a_fit_as_before() -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    fit("spectral", n_jobs=before + 3)
    assert faiss.omp_get_max_threads() == before
