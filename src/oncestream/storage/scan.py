"""Reading a segment's file batch by batch with checksums, and telling a torn tail from damage."""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from oncestream.records.batch import (
    HEADER_SIZE,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    BatchHeader,
    is_valid_batch,
    parse_header,
)
from oncestream.storage.files import OpenFile

CHUNK_BYTES: Final = 1024 * 1024
OFFSET_SPAN_MAX: Final = 2**31


@dataclass(slots=True)
class Scan:
    """How far a scan came: `position` and `next_offset` follow the last whole batch."""

    path: str
    position: int
    next_offset: int
    size_bytes: int
    holes: bool  # compaction leaves holes between offsets; in other logs each batch follows the last
    problem: str | None = None
    misplaced: bool = False  # the batch that stopped the scan is whole, only its offset is wrong


def scan_batches(file: OpenFile, scan: Scan) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Whole batches in the order of their offsets; stops at the first that is not, and says why in `scan`.

    The checksum does not cover a batch's offset: a whole batch at a wrong offset is damage, never a torn write.
    """
    chunk, start = memoryview(b""), 0
    while scan.position < scan.size_bytes:
        left = scan.size_bytes - scan.position
        if left < HEADER_SIZE:
            scan.problem = f"{left} bytes are too few for a batch"
            return
        if start + len(chunk) - scan.position < HEADER_SIZE:
            chunk, start = memoryview(os.pread(file.fd, CHUNK_BYTES, scan.position)), scan.position
        header = parse_header(chunk, scan.position - start)
        scan.problem = _problem_of(header, scan)
        if scan.problem is not None:
            return
        size_bytes = header.size_bytes
        if start + len(chunk) - scan.position < size_bytes:
            wanted = max(CHUNK_BYTES, size_bytes)
            chunk, start = memoryview(os.pread(file.fd, wanted, scan.position)), scan.position
        batch = chunk[scan.position - start : scan.position - start + size_bytes]
        if not is_valid_batch(batch, header):
            scan.problem = "a batch does not match its checksum"
            return
        if not _follows(header, scan):
            scan.problem = f"a batch of offset {header.base_offset} follows offset {scan.next_offset - 1}"
            scan.misplaced = True
            return
        yield header, batch
        scan.position += size_bytes
        scan.next_offset = header.next_offset


def batch_follows(scan: Scan) -> bool:
    """Whether anywhere behind the place where the scan stopped a whole batch of this log lies."""
    left = scan.size_bytes - scan.position
    if left < HEADER_SIZE:
        return False
    # Base offset (its upper half is known but for a carry), length, leader epoch, magic: all but random.
    halves = {struct.pack(">q", scan.next_offset + span)[:4] for span in (0, OFFSET_SPAN_MAX)}
    pattern = rb"(?s)(?=(?:%s).{4}[\x00-\x7f].{3}[\x00-\x7f].{3}\x02)" % b"|".join(
        map(re.escape, sorted(halves))
    )
    with open(scan.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for match in re.compile(pattern).finditer(content, scan.position + 1):
            position = match.start()
            if position + HEADER_SIZE > scan.size_bytes:
                break
            header = parse_header(content[position : position + HEADER_SIZE])
            candidate = Scan(scan.path, position, scan.next_offset, scan.size_bytes, holes=True)
            if (
                _problem_of(header, candidate) is None
                and _follows(header, candidate)
                and is_valid_batch(content[position : position + header.size_bytes], header)
            ):
                return True
    return False


def _problem_of(header: BatchHeader, scan: Scan) -> str | None:
    size_bytes = header.length + LENGTH_PREFIX_BYTES
    if header.magic != MAGIC:
        return f"a batch has magic {header.magic}"
    if size_bytes < HEADER_SIZE:
        return f"a batch says it has {size_bytes} bytes"
    if size_bytes > scan.size_bytes - scan.position:
        return f"a batch of {size_bytes} bytes is cut off after {scan.size_bytes - scan.position}"
    if header.last_offset_delta < 0:
        return f"a batch spans {header.last_offset_delta + 1} offsets"
    return None


def _follows(header: BatchHeader, scan: Scan) -> bool:
    hole = header.base_offset - scan.next_offset
    return 0 <= hole < OFFSET_SPAN_MAX if scan.holes else hole == 0
