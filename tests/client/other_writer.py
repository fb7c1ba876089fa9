"""A second process that writes in the transaction of the first: `python -m tests.client.other_writer ...`."""

from __future__ import annotations

import sys

from oncestream.client.cluster import cluster_of
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import Producer
from oncestream.client.writing import Writer
from tests.client.kit import numbered, rows_of


def main(
    bootstrap: str,
    transactional_id: str,
    producer_id: str,
    epoch: str,
    topic: str,
    partition: str,
    count: str,
) -> None:
    cluster = cluster_of(ClientSettings.of(bootstrap))
    producer = Producer(int(producer_id), int(epoch))
    writer = Writer(cluster, producer=producer, transactional_id=transactional_id)
    writer.write(TopicPartition(topic, int(partition)), rows_of(numbered(int(count), f"{partition}-")))
    writer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
