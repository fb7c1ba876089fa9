"""docs/settings.md, made from the table in broker/settings.py: `python -m tests.broker.settings_page` writes it."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Final

from oncestream.broker.broker_configs import DYNAMIC
from oncestream.broker.broker_loggers import LOGGERS
from oncestream.broker.settings import ENVIRONMENT_PREFIX, BrokerSettings
from oncestream.broker.topic_configs import TABLE

_SETTINGS: Final = {
    "max.connections": "`connections_max`",
    "producer.id.expiration.ms": "`producer_id_expiration_ms`",
}


def _setting_of(name: str) -> str:
    of_topics = (f"`topic_defaults`: `{spec.name}`" for spec in TABLE.values() if spec.synonym == name)
    return _SETTINGS.get(name) or next(of_topics)


PAGE: Final = Path(__file__).parents[2] / "docs" / "settings.md"
LOGGER_NAMES: Final = ", ".join(f"`{name}`" for name in LOGGERS)
CHANGEABLE: Final = "".join(f"| `{name}` | {_setting_of(name)} |\n" for name in sorted(DYNAMIC))
HEAD: Final = f"""# Settings of the broker

A setting can stand in three places; the later one wins:

1. a TOML file, given with `--config FILE`: `node_id = 7`, tables as tables
2. the environment: `{ENVIRONMENT_PREFIX}NODE_ID=7`
3. the command line: `--set node_id=7`, any number of times; `--data`, `--listen` and `--insecure` are short
   for the settings of that name

From Python they are keyword arguments, `Broker("data", node_id=7)`, where neither file nor environment is read.
A name that is not in this table, and a value that cannot be, stop the start with exit code 2. A table is written
`topic_defaults=retention.ms=60000,cleanup.policy=compact` outside a file.

Exit codes of `oncestream broker start`: 0 stopped by SIGTERM or Ctrl-C; 2 wrong settings or options; 3 the data
folder or the address cannot be used; 1 anything else.

Clients see the settings under the names that Apache Kafka gives them (DescribeConfigs, `kafka-configs --entity-type
brokers`). These they can change while the broker runs, for the broker (its `node_id`) or as a default of the cluster
(no id), with AlterConfigs and IncrementalAlterConfigs:

| Kafka's name | Setting here |
|---|---|
{CHANGEABLE}
A change is on disk before it is answered, lasts over restarts, and wins over file, environment and command line;
topics without a value of their own follow at once (a lower `message.max.bytes` does not bind the broker's own
topics). To take it back, delete it. Quotas are changed with
`oncestream quota`. Every other setting is refused, as Apache Kafka refuses its read-only ones.

Levels of logging change, too, until the broker stops: resource type BROKER_LOGGER, loggers
{LOGGER_NAMES}; `root` stands above the other two. Where the
broker is a thread of a program, they are the loggers of that program.

Names end in their unit: `_ms`, `_bytes`; `_max` is the largest allowed. This page is made from the program's own
table (`python -m tests.broker.settings_page`).

| Setting | Default | Meaning | Allowed | Environment variable |
|---|---|---|---|---|
"""


def render() -> str:
    return HEAD + "".join(_row(spec) for spec in fields(BrokerSettings))


def _row(spec: Field[Any]) -> str:
    default = spec.default if spec.default is not MISSING else ""
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    cells = (
        f"`{spec.name}`",
        f"`{shown}`" if shown else "empty",
        spec.metadata["doc"],
        _allowed(spec),
        f"`{ENVIRONMENT_PREFIX}{spec.name.upper()}`",
    )
    return f"| {' | '.join(cells)} |\n"


def _allowed(spec: Field[Any]) -> str:
    low, high = spec.metadata["low"], spec.metadata["high"]
    if low is None:
        return "true, false" if isinstance(spec.default, bool) else ""
    return f"{low} or more" if high is None else f"{low} to {high}"


if __name__ == "__main__":
    PAGE.write_text(render())
