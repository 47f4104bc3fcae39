"""URLs of stores: what is secret in them is used and never shown."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from dmmc.errors import InputError, hide_in_urls
from dmmc.stores.urls import Remote, find_all, find_place, find_remote

SECRET = "w0nder/ful+secret"


@pytest.mark.parametrize(
    ("url", "shown", "options"),
    [
        ("s3://bucket/a/x.zarr", "s3://bucket/a/x.zarr", {}),
        ("s3://me:w0nder%2Fful@bucket/x.zarr/", "s3://bucket/x.zarr", {"key": "me", "secret": "w0nder/ful"}),
        ("https://h:8/x.zarr?sig=a%2Fb", "https://h:8/x.zarr", {"params": {"sig": "a/b"}}),
        ("https://me:pass@h/x.zarr", "https://h/x.zarr", {"headers": {"Authorization": "Basic bWU6cGFzcw=="}}),
        ("abfs://box@account.dfs.core.windows.net/x", "abfs://box@account.dfs.core.windows.net/x", {}),
        ("memory://x.zarr", "memory://x.zarr", {}),
    ],
)
def test_a_url_is_shown_without_what_is_secret_and_used_with_it(url: str, shown: str, options: dict[str, Any]) -> None:
    found = find_remote(url)
    assert str(found) == shown
    assert found.options == options
    assert found.name == shown.rsplit("/", 1)[-1]
    again = pickle.loads(pickle.dumps(found))
    assert (again.url, again.options, again.limits) == (found.url, options, found.limits)


def test_options_are_in_no_repr_and_in_no_sentence() -> None:
    found = find_remote("s3://bucket/x.zarr", {"key": "AKIAME", "secret": SECRET, "client_kwargs": {"token": "t0ken!"}})
    assert repr(found) == "Remote(url='s3://bucket/x.zarr')"
    said = found.hide(
        f"AKIAME and {SECRET} and w0nder%2Fful%2Bsecret and t0ken! at https://a:b@c/d?X-Amz-Signature=ff&b=1 'x'"
    )
    assert said == "... and ... and ... and ... at https://c/d 'x'"


def test_parts_of_a_secret_are_secret_too() -> None:
    found = find_remote("az://box/x", {"connection_string": "AccountName=me;AccountKey=abcdefgh=="})
    assert found.hide("key abcdefgh== of me") == "key ... of me"


def test_an_endpoint_is_no_secret() -> None:
    found = find_remote("s3://b/x", {"endpoint_url": "http://127.0.0.1:9000", "anon": True})
    assert found.hide("cannot connect to http://127.0.0.1:9000/b/x: True") == (
        "cannot connect to http://127.0.0.1:9000/b/x: True"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no s3://k:s@b/x is there", "no s3://b/x is there"),
        ("(http://token@host/a?b=c)", "(http://host/a"),
        ("tcp://127.0.0.1:8786 and C:\\a ? b", "tcp://127.0.0.1:8786 and C:\\a ? b"),
    ],
)
def test_urls_inside_of_texts_lose_what_is_secret(text: str, shown: str) -> None:
    assert hide_in_urls(text) == shown


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("ftp://me:secret@host/x", "ftp://host/x is a URL of a kind that is not read: s3://, "),
        ("s3://", "s3:// names no place in a store"),
        ("gs://b/x?generation=1", "gs://b/x has a query"),
        ("az://me:secret@box/x", "az://box/x was given with a password in it"),
        ("https://host/x#part", "https://host/x#part has a fragment"),
    ],
)
def test_a_url_that_means_no_store_is_refused_without_its_secrets(url: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        find_remote(url)
    assert str(error.value).startswith(sentence)
    assert "secret" not in str(error.value)


def test_options_go_to_all_urls_and_are_refused_where_there_is_none() -> None:
    views, target = find_all({"anon": True}, ["s3://b/x", "y.zarr"], "s3://b/z")
    assert [view.options if isinstance(view, Remote) else view for view in views] == [{"anon": True}, "y.zarr"]
    assert target.options == {"anon": True}
    assert find_all(None, "x.zarr", None) == ["x.zarr", None]
    with pytest.raises(
        InputError, match=r"storage options \(key, secret\) are for URLs such as s3://..., and 'x.zarr'"
    ):
        find_all({"key": "a", "secret": SECRET}, "x.zarr", "y.zarr")


def test_a_web_server_is_not_written() -> None:
    with pytest.raises(InputError, match=r"https://host/x\.zarr cannot be written"):
        find_place("https://host/x.zarr?sig=1")
