from __future__ import annotations
from dataclasses import dataclass
from pathlib import Path
from collections.abc import Sequence
from typing import Any
@dataclass
class CompactionJob:
    end_offset: int
    def run(self) -> None: ...
def plan_compaction(*a: Any) -> CompactionJob | None:
    return None
def swap_in(*a: Any) -> None: ...
