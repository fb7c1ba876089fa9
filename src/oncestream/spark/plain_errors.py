"""Errors in Spark's planning processes: Spark shows the user all that such a process writes about them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from oncestream.errors import OncestreamError

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"  # Spark's own switch, asked when it tells of an error


@contextmanager
def plain_errors() -> Iterator[None]:
    """Of our own errors Spark tells the message alone: cause and suggestion say it all."""
    try:
        yield
    except OncestreamError:
        os.environ[HIDE_TRACEBACK] = "1"
        raise
    else:
        os.environ.pop(HIDE_TRACEBACK, None)
