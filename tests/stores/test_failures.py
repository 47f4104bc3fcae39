"""Which errors of a store pass: by those that libraries really raise."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from s3fs.errors import translate_boto_error
from yarl import URL

from dmmc.stores.failures import find_status, is_refusal, passes, tell
from dmmc.stores.urls import find_remote


def s3(status: int, code: str) -> Any:
    """What s3fs makes of an answer of S3."""
    answer: Any = {"Error": {"Code": code, "Message": "words"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return translate_boto_error(ClientError(answer, "GetObject"))


def web(status: int) -> Exception:
    """What aiohttp makes of an answer of a web server."""
    about: Any = aiohttp.RequestInfo(URL("http://host/x?sig=secret"), "GET", {}, URL("http://host/x?sig=secret"))  # type: ignore[arg-type]
    return aiohttp.ClientResponseError(about, (), status=status, message="words")


@pytest.mark.parametrize(
    "error",
    [
        s3(503, "SlowDown"),
        s3(500, "InternalError"),
        s3(400, "RequestTimeout"),
        web(503),
        web(429),
        TimeoutError(),
        ConnectionResetError(),
        OSError("broken pipe"),
        EndpointConnectionError(endpoint_url="http://x"),
        ReadTimeoutError(endpoint_url="http://x"),
        aiohttp.ClientPayloadError(),
        aiohttp.ServerDisconnectedError(),
    ],
)
def test_a_busy_store_and_a_broken_line_pass(error: Exception) -> None:
    assert passes(error)
    assert not is_refusal(error)


@pytest.mark.parametrize(
    "error", [s3(403, "AccessDenied"), s3(403, "InvalidAccessKeyId"), web(401), NoCredentialsError()]
)
def test_a_refusal_does_not_pass(error: Exception) -> None:
    assert not passes(error)
    assert is_refusal(error)


@pytest.mark.parametrize(
    "error", [FileNotFoundError(), web(404), web(400), s3(400, "InvalidArgument"), ParamValidationError(report="x")]
)
def test_what_was_asked_wrongly_does_not_pass(error: Exception) -> None:
    assert not passes(error)
    assert not is_refusal(error)


def test_what_a_store_said_is_told_with_its_number_and_without_secrets() -> None:
    place = find_remote("http://host/x?sig=secret")
    assert find_status(web(503)) == 503
    assert tell(web(503), place) == "503: 503, message='words', url='http://host/x'"
