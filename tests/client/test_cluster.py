"""Clusters kept per process and thread, and the connections they reuse."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

from oncestream.client.cluster import Cluster, cluster_of

FORKS = textwrap.dedent(
    """
    import os, sys
    from oncestream.client.cluster import cluster_of
    from oncestream.client.settings import ClientSettings

    settings = ClientSettings.of(sys.argv[1])
    mine = cluster_of(settings)
    known = mine.cluster_id
    child = os.fork()
    if child == 0:
        theirs = cluster_of(settings)
        os._exit(0 if theirs is not mine and theirs.cluster_id == known else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cluster_of(settings) is mine
    mine.metadata([])
    assert sum(map(len, mine._idle.values())) == 1
    """
)


def test_a_forked_process_makes_its_own_connections(bootstrap: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", FORKS, bootstrap], timeout=60)
    assert done.returncode == 0


def test_the_same_settings_give_the_same_cluster_in_one_thread_and_another_in_the_next(
    cluster: Cluster,
) -> None:
    mine = cluster_of(cluster.settings)
    assert cluster_of(cluster.settings) is mine
    assert mine.cluster_id == cluster.cluster_id != ""
    others: list[Cluster] = []
    thread = threading.Thread(target=lambda: others.append(cluster_of(cluster.settings)))
    thread.start()
    thread.join()
    assert others[0] is not mine


def test_one_connection_serves_one_request_after_another(cluster: Cluster) -> None:
    for _ in range(5):
        cluster.metadata([])
    (address,) = cluster._candidates()
    first = cluster.take(address)
    cluster.give_back(first)
    assert cluster.take(address) is first
    assert cluster.take(address) is not first
