"""Fixtures for every test: the embedded broker, Apache Kafka, Kafka's tools; what was left out and why."""

from __future__ import annotations

import gc
import resource
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from oncestream.errors import JarsUnavailable, JavaUnavailable
from oncestream.testing.apache_kafka import ApacheKafka
from oncestream.testing.kafka_jars import kafka_jars
from tests.java_tools import KafkaTools

# kafka-python reads its schemas, while it is imported, by functions that Python 3.11 calls deprecated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

import hypothesis  # noqa: F401 - here, so that no garbage of a test is collected while it is parsed

CANNOT_RUN_HERE = "cannot run here: "

# Brokers of many tests live in one process, and their clients too: more files than the usual limit of 1024.
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


class Target(NamedTuple):
    """A running single node that speaks the Kafka protocol."""

    bootstrap_servers: str
    data_folder: Path


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Brokers and logs that a module's tests crashed on purpose let go of their files before the next module."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def java() -> None:
    """Skips, and the run's last lines say so, where Kafka's own programs cannot run."""
    try:
        kafka_jars()
    except (JavaUnavailable, JarsUnavailable) as missing:
        pytest.skip(f"{CANNOT_RUN_HERE}{missing.cause_text}")


@pytest.fixture(scope="session")
def kafka_tool(java: None) -> Iterator[KafkaTools]:
    """`kafka_tool(main_class, *args) -> CompletedProcess[str]`; mark the test `java`."""
    tools = KafkaTools()
    yield tools
    tools.close()


@pytest.fixture(scope="session")
def apache_kafka(java: None) -> Iterator[ApacheKafka]:
    """One node of Apache Kafka for the whole run; mark the test `java`."""
    with ApacheKafka() as kafka:
        yield kafka


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One embedded broker for the whole run."""
    from oncestream import Broker

    folder = tmp_path_factory.mktemp("embedded")
    with Broker(folder) as broker:
        yield Target(broker.bootstrap_servers, folder)


@pytest.fixture(scope="session", params=["embedded", pytest.param("apache", marks=pytest.mark.java)])
def target(request: pytest.FixtureRequest) -> Target:
    """A test that takes this, or `bootstrap`, must pass on the embedded broker and on Apache Kafka."""
    if request.param == "embedded":
        return cast("Target", request.getfixturevalue("embedded"))
    kafka = cast("ApacheKafka", request.getfixturevalue("apache_kafka"))
    return Target(kafka.bootstrap_servers, kafka.data_folder(1))


@pytest.fixture(scope="session")
def bootstrap(target: Target) -> str:
    """Bootstrap servers of the embedded broker and, in a second run of the test, of Apache Kafka."""
    return target.bootstrap_servers


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep all that needs Java on one worker of pytest-xdist: one Kafka, one JVM of tools."""
    for item in items:
        if item.get_closest_marker("java"):
            item.add_marker(pytest.mark.xdist_group("java"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """The last lines say what could not run on this machine, and why."""
    yield
    left_out: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.getreports("skipped"):
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""
        if CANNOT_RUN_HERE in reason:
            left_out[reason.split(CANNOT_RUN_HERE, 1)[1]].append(report.nodeid)
    for reason, tests in left_out.items():
        terminalreporter.section("Could not run here", yellow=True)
        terminalreporter.line(f"{len(tests)} tests, because {reason}:")
        for function, count in sorted(Counter(test.partition("[")[0] for test in tests).items()):
            terminalreporter.line(f"  {function}" + (f" ({count} variants)" if count > 1 else ""))
