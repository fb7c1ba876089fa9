"""How much a test does, in examples, rounds or seconds: `make test` samples, `make soak` goes the whole way."""

from __future__ import annotations

import os
from typing import Final, TypeVar

IS_SOAK: Final = os.environ.get("ONCESTREAM_SOAK") == "1"

T = TypeVar("T")


def effort(sample: T, soak: T) -> T:
    return soak if IS_SOAK else sample
