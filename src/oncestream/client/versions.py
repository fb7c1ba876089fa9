"""Which versions of each request this client speaks. The lowest ones are what Apache Kafka 3.6 has."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncestream.wire.api import ApiKey


class Spoken(NamedTuple):
    low: int
    high: int


# Where a later version names topics by their ids instead of their names, the last one with names is the highest.
SPOKEN: Final[dict[ApiKey, Spoken]] = {
    ApiKey.PRODUCE: Spoken(9, 12),
    ApiKey.FETCH: Spoken(12, 12),
    ApiKey.LIST_OFFSETS: Spoken(7, 9),
    ApiKey.METADATA: Spoken(12, 12),
    ApiKey.OFFSET_COMMIT: Spoken(8, 9),
    ApiKey.OFFSET_FETCH: Spoken(8, 9),
    ApiKey.FIND_COORDINATOR: Spoken(4, 5),
    ApiKey.SASL_HANDSHAKE: Spoken(1, 1),
    ApiKey.SASL_AUTHENTICATE: Spoken(2, 2),
    ApiKey.CREATE_TOPICS: Spoken(7, 7),
    ApiKey.DELETE_TOPICS: Spoken(6, 6),
    ApiKey.DELETE_RECORDS: Spoken(2, 2),
    ApiKey.INIT_PRODUCER_ID: Spoken(4, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: Spoken(3, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: Spoken(3, 4),
    ApiKey.END_TXN: Spoken(3, 5),
    ApiKey.TXN_OFFSET_COMMIT: Spoken(3, 5),
    ApiKey.DESCRIBE_CONFIGS: Spoken(4, 4),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Spoken(1, 1),
    ApiKey.DESCRIBE_LOG_DIRS: Spoken(3, 4),
    ApiKey.CREATE_PARTITIONS: Spoken(3, 3),
    ApiKey.DESCRIBE_ACLS: Spoken(3, 3),
    ApiKey.CREATE_ACLS: Spoken(3, 3),
    ApiKey.DELETE_ACLS: Spoken(3, 3),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Spoken(0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Spoken(0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Spoken(1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: Spoken(1, 1),
    ApiKey.LIST_GROUPS: Spoken(4, 5),
    ApiKey.DESCRIBE_GROUPS: Spoken(5, 6),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Spoken(0, 1),
    ApiKey.DELETE_GROUPS: Spoken(2, 2),
    ApiKey.OFFSET_DELETE: Spoken(0, 0),
    ApiKey.LIST_TRANSACTIONS: Spoken(0, 0),
    ApiKey.DESCRIBE_PRODUCERS: Spoken(0, 0),
    ApiKey.WRITE_TXN_MARKERS: Spoken(1, 1),
    ApiKey.DESCRIBE_TRANSACTIONS: Spoken(0, 0),
}

API_VERSIONS_VERSION: Final = 3
