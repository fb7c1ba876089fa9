"""CRC32C (Castagnoli), the checksum of record batches and of producer snapshots."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, Final, cast

Checksum = Callable[[Any], int]


def _load() -> Checksum:
    # The package's __init__ reads its version through importlib.metadata, 45 ms: load the extension alone.
    package = PathFinder.find_spec("crc32c")
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        return cast("Checksum", importlib.import_module("crc32c").crc32c)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Checksum", module.crc32c)


crc32c: Final = _load()
