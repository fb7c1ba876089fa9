"""Dead letters: payments in euro; what cannot be converted is kept, with its reason, to be sent again."""

import csv
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from pyspark.sql import DataFrame, Row

import oncestream as once

with Path(__file__).with_name("rates.csv").open() as file:
    RATES = {row["currency"]: Decimal(row["rate"]) for row in csv.DictReader(file)}


@once.pipeline(source="payments", sink="euros")
def payments_in_euro(payments: DataFrame) -> DataFrame:
    return payments.transform(once.each(convert))


def convert(row: Row) -> Iterator[dict[str, str]]:
    """One payment. What is raised here is the reason of one dead letter; the other payments go on."""
    payment = json.loads(row.value)
    if payment["currency"] not in RATES:
        raise ValueError(f"no rate for {payment['currency']}")
    cents = round(payment["cents"] * RATES[payment["currency"]])
    yield {"key": payment["id"], "value": json.dumps({"id": payment["id"], "euro_cents": cents})}
