"""URLs of stores: what they mean, and how they are shown without what is secret in them."""

import base64
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

from dmmc.errors import InputError, hide_in_urls
from dmmc.stores.limits import StoreLimits

PACKAGES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "memory": "fsspec",
}
"""What can be read, and what has to be installed for it."""
PLAIN_OPTIONS = ("endpoint_url", "region_name", "account_name", "project", "profile")
"""Storage options that are no secrets: what a store says is shown with them."""
SHORTEST = 3
"""Characters of the shortest secret that is looked for in what a store says."""


@dataclass(frozen=True)
class Remote:
    """A place in an object store, without secrets in what is shown of it; it pickles with them, as workers need them.

    url : without user, password and query
    options : of the file system: credentials, an endpoint
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    limits: StoreLimits = field(default_factory=StoreLimits.from_config, repr=False, compare=False)

    def __str__(self) -> str:
        return self.url

    @property
    def scheme(self) -> str:
        """s3, gs and so on."""
        return self.url.partition("://")[0]

    @property
    def name(self) -> str:
        """The last part of the path, as of a file."""
        return self.url.partition("://")[2].rsplit("/", 1)[-1]

    @property
    def suffix(self) -> str:
        """The ending of the name."""
        return PurePosixPath(self.name).suffix

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return PurePosixPath(self.name).stem

    @property
    def is_listed(self) -> bool:
        """Whether the names of objects can be listed."""
        return self.scheme not in ("http", "https")

    @property
    def is_written(self) -> bool:
        """Whether objects can be written."""
        return self.scheme not in ("http", "https")

    @property
    def is_shared(self) -> bool:
        """Whether other processes see it."""
        return self.scheme != "memory"

    def join(self, key: str) -> "Remote":
        """What is below it."""
        return replace(self, url=f"{self.url}/{key}")

    def hide(self, text: str) -> str:
        """A text without the secrets of this place: a store may repeat them in what it says."""
        for secret in sorted(set(_list_secrets(self.options)), key=len, reverse=True):
            for form in {secret, quote(secret, safe=""), quote_plus(secret)}:
                text = text.replace(form, "...")
        return hide_in_urls(text)


Place = Path | Remote
"""Where something is written: on this machine, or in an object store."""


def is_url(source: object) -> bool:
    """Whether a source is the URL of a store, or one that was understood already."""
    return isinstance(source, Remote) or (isinstance(source, str | os.PathLike) and "://" in os.fspath(source))


def find_remote(source: Any, options: Mapping[str, Any] | None = None) -> Any:
    """URLs of a source, which may be a list of views, as `Remote`; what is no URL stays as it is."""
    if isinstance(source, list | tuple) and any(map(is_url, source)):
        return [find_remote(one, options if is_url(one) else None) for one in source]
    if is_url(source):
        return source if isinstance(source, Remote) else _parse(os.fspath(source), options or {})
    if options:
        what = repr(os.fspath(source)) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"
        raise InputError(f"storage options ({', '.join(options)}) are for URLs such as s3://..., and {what} is none.")
    return source


def find_all(options: Mapping[str, Any] | None, *sources: Any) -> list[Any]:
    """`find_remote` of each of these; the options are for those that are URLs, of which there must be one."""
    remote = [is_url(one) or (isinstance(one, list | tuple) and any(map(is_url, one))) for one in sources]
    if not any(remote):
        remote[0] = True  # which refuses options
    return [find_remote(one, options if here else None) for one, here in zip(sources, remote, strict=True)]


def find_place(path: Any, options: Mapping[str, Any] | None = None) -> Place:
    """Where something is to be written: a path of this machine, or a place in an object store."""
    if not is_url(path):
        return Path(path)
    place: Remote = find_remote(path, options)
    if not place.is_written:
        raise InputError(f"{place} cannot be written: stores can be written to s3://, gs:// and az://.")
    return place


def _parse(url: str, options: Mapping[str, Any]) -> Remote:
    """Take a URL apart: what is secret in it becomes options."""
    options = dict(options)
    shown = hide_in_urls(url)
    try:
        scheme, host, path, query, fragment = urlsplit(url)
    except ValueError:
        raise InputError(f"{shown} is not a URL that can be read.") from None
    if scheme not in PACKAGES or "::" in url:
        raise InputError(
            f"{shown} is a URL of a kind that is not read: {', '.join(f'{one}://' for one in PACKAGES)} are, and paths."
        )
    if fragment or (query and scheme not in ("http", "https")):
        raise InputError(f"{shown} has a {'fragment' if fragment else 'query'}, and a store has none: leave it out.")
    if scheme in ("http", "https"):
        user, has_user, host = host.rpartition("@")
        if has_user:
            token = base64.b64encode(unquote(user).encode()).decode()
            options["headers"] = {**options.get("headers", {}), "Authorization": f"Basic {token}"}
        if query:
            options["params"] = {**dict(parse_qsl(query, keep_blank_values=True)), **options.get("params", {})}
    elif ":" in host.rpartition("@")[0] or (scheme == "s3" and "@" in host):
        if scheme != "s3":
            raise InputError(f"{shown} was given with a password in it: give that as a storage option.")
        user, _, host = host.rpartition("@")
        key, _, secret = user.partition(":")
        options = {"key": unquote(key), "secret": unquote(secret), **options}
    path = path.rstrip("/")
    if not (host or path.strip("/")):
        raise InputError(f"{shown} names no place in a store: {scheme}://PLACE/NAME.zarr is wanted.")
    return Remote(urlunsplit((scheme, host, path, "", "")), options)


def _list_secrets(options: Mapping[str, Any]) -> Iterator[str]:
    """All texts among options, however deep, but those that are known to be none."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _list_secrets(value)
        elif name not in PLAIN_OPTIONS and not isinstance(value, bool) and len(str(value)) >= SHORTEST:
            yield str(value)
            # of "Basic abc" and of "AccountKey=abc;Endpoint=def", the parts too
            parts = (part.partition("=")[2] or part for part in str(value).replace(";", " ").split())
            yield from (part for part in parts if len(part) > 2 * SHORTEST)
