"""Ports for servers that do not listen yet."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from oncestream.testing.ports import HOST, Ports, free_ports

TAKES_MANY = "from oncestream.testing.ports import free_ports; print(*free_ports(300), flush=True); input()"


def test_no_two_processes_get_one_port_while_both_live() -> None:
    pipe = subprocess.PIPE
    others = [
        subprocess.Popen([sys.executable, "-c", TAKES_MANY], stdin=pipe, stdout=pipe, text=True)
        for _ in range(2)
    ]
    try:
        taken = [port for other in others if other.stdout for port in other.stdout.readline().split()]
        mine = free_ports(300)
    finally:
        for other in others:
            other.communicate("go")
    assert len({*map(int, taken), *mine}) == 900


def test_a_process_gets_other_ports_until_it_had_all() -> None:
    given = [port for _ in range(300) for port in free_ports(2)]
    assert len(set(given)) == 600


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    (port,) = free_ports(1)
    assert Ports(range(port, port + 1)).take(1) == [port]
    with socket.create_server((HOST, port)), pytest.raises(OSError, match="1 ports are needed, 0 of"):
        Ports(range(port, port + 1)).take(1)
