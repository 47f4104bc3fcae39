"""The command line on object stores: exit codes, and no credential in anything that is written or said."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import numpy as np
import pytest
from object_server import BUCKET, KEY, SECRET, Faults, FaultyProxy, ObjectServer

from dmmc.app.cli_options import hide_arguments, parse_storage_options
from dmmc.results.label_arrays import read_labels

TOKEN = "t0ken/of+this=session"
SECRETS = {form for text in (KEY, SECRET, TOKEN) for form in (text, quote(text, safe=""), quote_plus(text))}


def given(address: str) -> list[str]:
    """Credentials and an address as options of a command."""
    pairs = (f"key={KEY}", f"secret={SECRET}", f"token={TOKEN}", f"client_kwargs.endpoint_url={address}")
    return [word for pair in pairs for word in ("--storage-option", pair)]


def find_secrets(places: Iterable[Path], *said: str) -> list[str]:
    """Where a secret was written or said."""
    texts = {str(path): path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()}
    texts |= {f"said {number}": text.encode() for number, text in enumerate(said)}
    return [where for where, text in texts.items() if any(secret.encode() in text for secret in SECRETS)]


@pytest.mark.slow
def test_commands_work_on_s3_and_write_and_say_no_credential(
    cli: Any, put_digits: Any, proxy: FaultyProxy, server: ObjectServer, tmp_path: Path
) -> None:
    url, path = put_digits("commands.zarr")
    options, out = given(proxy.address), tmp_path / "out"
    fit = ("fit", url, "-k", 3, "-o", out, "--method", "cpmmc", "--scores", *options)
    done = [cli(*fit, "--workers", 2, "--performance-report", tmp_path / "dask.html")]
    assert done[-1].code == 0, done[-1].stderr
    run = json.loads((out / "run.json").read_text())
    assert "--storage-option key=... --storage-option secret=... " in run["command"]
    labels, scores, table = (f"s3://{BUCKET}/new.{end}" for end in ("zarr", "scores.zarr", "csv"))
    done.append(cli("predict", out, url, "-o", labels, "--scores", scores, *options))
    assert done[-1].code == 0, done[-1].stderr
    assert f"600 labels written to {labels}" in done[-1].stdout
    done.append(cli("predict", out, url, "-o", table, *options))
    assert server.get("new.csv").startswith(b"id,label,name,confidence,runner_up\n0,")
    assert server.list("new.csv") == ["new.csv"], "what it was made of is removed"
    done.append(cli("score", labels, out, *options, "--json"))
    assert json.loads(done[-1].stdout)["accuracy"] == 1.0
    done.append(cli("info", url, *options, "--check", "--json"))
    assert json.loads(done[-1].stdout)["listed"]
    done.append(cli("pairs", out, url, "-o", tmp_path / "pairs.csv", "--restarts", 0, *options))
    done.append(cli("fit", path, "-k", 3, "-o", tmp_path / "here", "--method", "cpmmc"))
    assert np.array_equal(read_labels(str(out)), read_labels(str(tmp_path / "here")))
    assert [one.code for one in done] == [0] * len(done)
    proxy.faults = Faults(denied=1.0)
    done.append(cli("predict", out, url, "-o", tmp_path / "no.zarr", *options))
    assert done[-1].code == 2
    assert "access was refused" in done[-1].stderr
    assert find_secrets([tmp_path], *(text for one in done for text in one[1:])) == []
    (tmp_path / "proof").write_text(f"x{quote(SECRET, safe='')}x")
    assert find_secrets([tmp_path]) == [str(tmp_path / "proof")], "the search finds what there is"


def test_a_fit_that_is_resumed_takes_its_options_again_and_its_checkpoint_has_none(
    cli: Any, put_digits: Any, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dmmc

    url, path = put_digits("resumed.zarr")
    options = {"key": KEY, "secret": SECRET, "endpoint_url": proxy.address}

    def stop(event: dict[str, Any]) -> None:
        if event.get("iteration") == 3:
            raise KeyboardInterrupt

    asked: dict[str, Any] = {"method": "cpmmc", "out": tmp_path / "out"}
    with pytest.raises(KeyboardInterrupt):
        dmmc.fit(url, 4, storage_options=options, progress=stop, **asked)
    assert (tmp_path / "out" / "checkpoint" / "checkpoint.json").is_file()
    assert find_secrets([tmp_path]) == []
    run = dmmc.fit(url, 4, storage_options=options, resume=True, **asked)
    assert np.array_equal(run.labels, dmmc.fit(path, 4, method="cpmmc").labels)
    assert find_secrets([tmp_path], repr(run), repr(run.model), json.dumps(run.info, default=str)) == []


def test_a_missing_chunk_ends_a_command_with_code_4_and_its_name(
    cli: Any, put_digits: Any, server: ObjectServer, tmp_path: Path
) -> None:
    url, _ = put_digits("torn.zarr")
    server.delete("torn.zarr/c/3/0")
    done = cli("fit", url, "-k", 3, "-o", tmp_path / "out", "--method", "cpmmc", *given(server.address))
    assert done.code == 4
    (line,) = done.stderr.splitlines()[-1:]
    assert line.startswith("dmmc: torn.zarr: 1 of 6 chunks are missing, c/3/0 (rows 300 to 399)")
    with_password = server.address.replace("//", f"//{KEY}:{quote_plus(SECRET)}@")
    web = f"{with_password}/{BUCKET}/torn.zarr?sig={quote(TOKEN)}"
    done = cli("predict", tmp_path / "none", web, "-o", tmp_path / "l.zarr")
    assert done.code == 2
    done = cli("fit", web, "-k", 3, "-o", tmp_path / "out", "--method", "cpmmc")
    assert done.code == 4
    assert f"{server.address}/{BUCKET}/torn.zarr/c/3/0 is missing" in done.stderr
    assert find_secrets([tmp_path], done.stdout, done.stderr) == []
    assert not (tmp_path / "out").exists()


def test_storage_options_are_texts_and_go_as_deep_as_their_names() -> None:
    found = parse_storage_options(
        ["key=12345", "anon=true", "client_kwargs.region_name=x=y", "client_kwargs.verify=False"]
    )
    assert found == {"key": "12345", "anon": True, "client_kwargs": {"region_name": "x=y", "verify": False}}
    assert parse_storage_options([]) is None


def test_arguments_are_shown_without_values_of_storage_options_and_secrets_in_urls() -> None:
    command = [
        "fit",
        "https://u:p@h/x.zarr?s=1",
        "--storage-option",
        "key=a=b",
        "--storage-option=secret=s",
        "--set",
        "C=3",
    ]
    assert hide_arguments(command) == [
        *("fit", "https://h/x.zarr", "--storage-option", "key=...", "--storage-option=secret=...", "--set", "C=3")
    ]
