"""Settings of Apache Kafka 4.3 that have one value here, because the broker has no setting for them.

A line is a name, its type and what holds here; no value is Kafka's null. Most values are Kafka's defaults.
Left out is what tunes a part that this broker lacks: replicas, KRaft's quorum, share groups and streams groups,
tiered storage, delegation tokens, Kerberos, OAuth, pools of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from oncestream.broker.topic_configs import ConfigType


class KafkaSetting(NamedTuple):
    name: str
    type: ConfigType
    value: str | None


def kafka_settings() -> Iterator[KafkaSetting]:
    for line in _TABLE.strip().splitlines():
        name, kind, *value = line.split(maxsplit=2)
        yield KafkaSetting(name, ConfigType[kind], value[0].strip('"') if value else None)


_TABLE: Final = """
alter.config.policy.class.name CLASS
broker.rack STRING
client.quota.callback.class CLASS
config.providers LIST ""
connection.failed.authentication.delay.ms INT 100
connections.max.reauth.ms LONG 0
controlled.shutdown.enable BOOLEAN true
cordoned.log.dirs LIST ""
create.topic.policy.class.name CLASS
default.replication.factor INT 1
delegation.token.secret.key PASSWORD
delete.topic.enable BOOLEAN true
early.start.listeners LIST
follower.fetch.last.tiered.offset.enable BOOLEAN false
group.consumer.assignors LIST uniform,range
group.consumer.max.heartbeat.interval.ms INT 15000
group.consumer.max.session.timeout.ms INT 60000
group.consumer.min.heartbeat.interval.ms INT 5000
group.consumer.min.session.timeout.ms INT 45000
group.coordinator.rebalance.protocols LIST classic,consumer
group.coordinator.threads INT 1
kafka.metrics.reporters LIST ""
listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
log.cleaner.enable BOOLEAN true
log.cleaner.threads INT 1
log.flush.scheduler.interval.ms LONG 9223372036854775807
log.retention.hours INT 168
log.retention.minutes INT
log.roll.hours INT 168
log.roll.jitter.hours INT 0
max.connection.creation.rate INT 2147483647
max.connections.per.ip INT 2147483647
max.connections.per.ip.overrides STRING ""
max.incremental.fetch.session.cache.slots INT 0
max.request.partition.size.limit INT 2000
metadata.log.dir STRING
metric.reporters LIST ""
num.io.threads INT 1
num.network.threads INT 1
num.recovery.threads.per.data.dir INT 1
offsets.topic.compression.codec INT 0
offsets.topic.replication.factor SHORT 1
offsets.topic.segment.bytes INT 104857600
quota.window.num INT 11
quota.window.size.seconds INT 1
remote.log.metadata.manager.class.path STRING
remote.log.metadata.manager.listener.name STRING
remote.log.storage.manager.class.name STRING
remote.log.storage.manager.class.path STRING
remote.log.storage.system.enable BOOLEAN false
replica.selector.class STRING
sasl.jaas.config PASSWORD
sasl.server.callback.handler.class CLASS
security.providers STRING
socket.listen.backlog.size INT 512
socket.receive.buffer.bytes INT -1
socket.send.buffer.bytes INT -1
ssl.cipher.suites LIST ""
ssl.enabled.protocols LIST TLSv1.2,TLSv1.3
ssl.engine.factory.class CLASS
ssl.key.password PASSWORD
ssl.keystore.certificate.chain PASSWORD
ssl.keystore.key PASSWORD
ssl.keystore.password PASSWORD
ssl.keystore.type STRING PEM
ssl.principal.mapping.rules STRING DEFAULT
ssl.protocol STRING TLSv1.3
ssl.provider STRING
ssl.truststore.certificates PASSWORD
ssl.truststore.password PASSWORD
ssl.truststore.type STRING PEM
transaction.partition.verification.enable BOOLEAN true
transaction.state.log.min.isr INT 1
transaction.state.log.replication.factor SHORT 1
transaction.state.log.segment.bytes INT 104857600
transaction.two.phase.commit.enable BOOLEAN false
"""
