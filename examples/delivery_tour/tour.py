"""The delivery tour: at-most, at-least and exactly once under the same kills, counted and drawn."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from plot import Curve, svg_plot

import oncestream as once

DELIVERIES = ("at-most-once", "at-least-once", "exactly-once")
COPY = Path(__file__).with_name("copy_numbers.py").absolute()
NUMBERS, KILLS, KILLED_IN = 10_000, 3, 3


def main() -> None:
    with TemporaryDirectory() as folder, once.Broker(f"{folder}/broker", process=True) as broker:
        os.environ["ONCESTREAM_BOOTSTRAP"] = broker.bootstrap_servers  # for all that follows
        with once.Producer() as producer:
            for number in range(NUMBERS):
                producer.send("numbers", str(number))
        curves = [tour(delivery, folder) for delivery in DELIVERIES]
    Path("tour.svg").write_text(svg_plot(curves, NUMBERS))


def tour(delivery: str, folder: str) -> Curve:
    """Three runs that are killed in their third batch, one that is not; then what came out is counted."""
    begun, kills = time.time(), []
    for run in range(KILLS + 1):
        killed_in = 0 if run == KILLS else KILLED_IN
        command = [sys.executable, str(COPY), delivery, str(killed_in)]
        copying = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, process_group=0)
        _, errors = copying.communicate()
        assert copying.returncode == (-signal.SIGKILL if killed_in else 0), errors
        if killed_in:
            kills.append(time.time() - begun)
            print(f"{delivery}: killed after {kills[-1]:.1f} s", flush=True)
    consume = ["oncestream", "consume", delivery, "--format", r"{timestamp} {value}\n"]
    records = [line.split() for line in subprocess.check_output(consume, text=True).splitlines()]
    copies = {number for _, number in records}
    lost, doubled = NUMBERS - len(copies), len(records) - len(copies)
    print(f"{delivery}: {NUMBERS} in, {len(records)} out, {lost} lost, {doubled} doubled", flush=True)
    written_at_s = sorted(int(timestamp_ms) / 1000 - begun for timestamp_ms, _ in records)
    return Curve(f"{delivery}: {lost:,} lost, {doubled:,} doubled", written_at_s, kills)


if __name__ == "__main__":
    main()
