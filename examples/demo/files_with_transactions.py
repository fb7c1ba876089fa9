"""The main job: a topic of URLs in, the card transactions in those files out, exactly once.

    oncestream pipeline run examples/demo/files_with_transactions.py --once

A URL that comes twice is read once. A file that is missing or broken becomes one dead letter in
`transactions.dead`, and none of its rows is written.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.request import urlopen

from pyspark.sql import DataFrame, Row

import oncestream as once

COLUMNS = ("id", "card", "amount", "currency", "at")
TIMEOUT_S = 10


@once.pipeline(
    source="files-with-transactions",
    sink="transactions",
    dedupe="value",
    read={"maxOffsetsPerTrigger": "360"},
)
def load_files(urls: DataFrame) -> DataFrame:
    return urls.transform(once.each(rows_of_file))


def rows_of_file(row: Row) -> Iterator[dict[str, str]]:
    """Downloads and parses one file; its rows are keyed by card, so that those of a card stay in order."""
    url = row.value.decode()
    with urlopen(url, timeout=TIMEOUT_S) as answer:
        text = answer.read().decode()
    for number, found in enumerate(json.loads(text) if url.endswith(".json") else csv_rows(text), start=1):
        transaction = checked(found, number)
        yield {"key": transaction["card"], "value": json.dumps(transaction)}


def csv_rows(text: str) -> Iterator[dict[str, Any]]:
    rows = csv.DictReader(io.StringIO(text))
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise ValueError(f"the head of the file is {rows.fieldnames}")
    yield from rows


def checked(found: dict[str, Any], number: int) -> dict[str, str]:
    """The columns of a transaction, all of them there and the amount a number."""
    missing = [name for name in COLUMNS if not found.get(name)]
    if missing:
        raise ValueError(f"row {number} has no {', '.join(missing)}")
    try:
        amount = Decimal(str(found["amount"]))
    except ArithmeticError:
        raise ValueError(f"row {number} has the amount {found['amount']!r}") from None
    return {name: str(found[name]) for name in COLUMNS} | {"amount": f"{amount:.2f}"}
