"""What a program that configures no logging sees on its standard error: nothing while all is well, and no jargon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.messaging.kit import DEADLINE_S

# The broker goes away under a producer and a consumer, which try to connect several times before it is back.
PROGRAM = """
import sys, time
import oncestream as once
from oncestream.testing.ports import free_address

address = free_address()
with once.Broker("data", listen=address):
    producer = once.Producer(address)
    producer.send("topic", "before")
    producer.flush()
    consumer = once.Consumer("topic", group="g", bootstrap_servers=address, commit="manual")
    assert next(consumer).value == b"before"
    print("well", file=sys.stderr)
ends = time.monotonic() + 1
while time.monotonic() < ends:
    producer.poll(0.1)
    consumer.poll(0.1)
print("back", file=sys.stderr)
with once.Broker("data", listen=address):
    producer.send("topic", "after")
    producer.close()
    consumer.close()
"""


def test_a_program_is_told_once_and_in_words_that_its_broker_is_away(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    well, _, rest = done.stderr.partition("well\n")
    away, _, again = rest.partition("back\n")
    assert (well, again) == ("", ""), done.stderr
    lines = away.splitlines()
    assert 1 <= len(lines) <= 2, "the producer tells it, and the consumer"
    assert all("does not answer, and is tried again and again" in line for line in lines), lines
