"""The demo's input: files of card transactions made from a seed, some of them bad, and a server for them."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Final, NamedTuple

ROWS_MIN, ROWS_MAX = 40, 120
BAD_SHARE: Final = 0.04
TWICE_SHARE: Final = 0.08
CURRENCIES: Final = ("EUR", "USD", "GBP", "CHF")


class Transaction(NamedTuple):
    id: str
    card: str
    amount: str
    currency: str
    at: str


class Fault(StrEnum):
    """What is wrong with a bad file."""

    MISSING = "missing file"
    TRUNCATED_CSV = "truncated CSV"
    TRUNCATED_JSON = "truncated JSON"
    BAD_AMOUNT = "an amount that is no number"


REASONS: Final = {
    Fault.MISSING: "HTTP Error 404",
    Fault.TRUNCATED_CSV: "has no card, amount, currency, at",
    Fault.TRUNCATED_JSON: "JSONDecodeError",
    Fault.BAD_AMOUNT: "row 3 has the amount 'n/a'",
}


@dataclass(frozen=True, slots=True)
class File:
    """Its content is None where the server has no such file; a bad file counts with no rows."""

    path: str
    content: bytes | None
    rows: tuple[Transaction, ...]
    fault: Fault | None = None


def make_files(count: int, random: Random) -> list[File]:
    return [_file(number, random) for number in range(count)]


def shuffled_with_repeats(files: list[File], random: Random) -> list[File]:
    """Every file once and some twice, in any order: what the demo produces."""
    twice = random.sample(files, round(len(files) * TWICE_SHARE))
    listed = [*files, *twice]
    random.shuffle(listed)
    return listed


@contextmanager
def serve(files: list[File]) -> Iterator[str]:
    """The address of a local HTTP server that has these files."""
    contents = {file.path: file.content for file in files if file.content is not None}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = contents.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                self.close_connection = True  # the client was killed half-way, as the demo wants

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so by the base class
            """A line per download would hide what the demo shows."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, name="files", daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _file(number: int, random: Random) -> File:
    kind = random.choice(("csv", "json"))
    path = f"/2026-11-15/{number:05d}.{kind}"
    rows = tuple(_transaction(number, index, random) for index in range(random.randint(ROWS_MIN, ROWS_MAX)))
    if random.random() >= BAD_SHARE:
        return File(path, _content(kind, rows), rows)
    truncated = Fault.TRUNCATED_CSV if kind == "csv" else Fault.TRUNCATED_JSON
    fault = random.choice((Fault.MISSING, truncated, Fault.BAD_AMOUNT))
    return File(path, _bad_content(kind, rows, fault), (), fault)


def _transaction(file: int, index: int, random: Random) -> Transaction:
    second = random.randrange(24 * 60 * 60)
    return Transaction(
        id=f"{file:05d}-{index:03d}",
        card=f"4000-{random.randrange(10_000):04d}",
        amount=f"{random.randrange(100, 500_000) / 100:.2f}",
        currency=random.choice(CURRENCIES),
        at=f"2026-11-15T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z",
    )


def _bad_content(kind: str, rows: tuple[Transaction, ...], fault: Fault) -> bytes | None:
    if fault is Fault.MISSING:
        return None
    if fault is Fault.BAD_AMOUNT:
        return _content(kind, (*rows[:2], rows[2]._replace(amount="n/a"), *rows[3:]))
    # Cut in the last row, after its id: good rows stand before it.
    content = _content(kind, rows)
    return content[: content.rindex(rows[-1].id.encode()) + len(rows[-1].id)]


def _content(kind: str, rows: tuple[Transaction, ...]) -> bytes:
    if kind == "json":
        return json.dumps([row._asdict() for row in rows]).encode()
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(Transaction._fields)
    writer.writerows(rows)
    return text.getvalue().encode()
