"""Fixtures for every test: the embedded broker, Apache Kafka, Kafka's tools; what was left out and why."""

from __future__ import annotations

import gc
import os
import resource
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from oncestream.errors import JarsUnavailable, JavaUnavailable
from oncestream.testing.apache_kafka import ApacheKafka
from oncestream.testing.kafka_jars import kafka_jars
from tests.certificates import Certificates, make_certificates
from tests.effort import IS_SOAK
from tests.java_tools import KafkaTools

# kafka-python reads its schemas, while it is imported, by functions that Python 3.11 calls deprecated.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

import hypothesis  # here, so that no garbage of a test is collected while it is parsed

CANNOT_RUN_HERE = "cannot run here: "
REASON_CHARACTERS_MAX = 200
SOAK_TIMEOUT_S = 4 * 3600
PASSWORDS = {name: f"{name}-secret" for name in ("admin", "alice", "bob", "carol")}

# Tests write records of old times, which retention must not take before they are read (the embedded broker waits).
NO_RETENTION = {"log.initial.task.delay.ms": "86400000", "log.retention.check.interval.ms": "86400000"}

# This machine may be busy: no test fails for its time.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

# The JVMs of tests live for seconds: the quick compiler alone takes less processor time than both.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# Brokers of many tests live in one process, and their clients too: more files than the usual limit of 1024.
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


class Target(NamedTuple):
    """A running cluster that speaks the Kafka protocol."""

    bootstrap_servers: str
    folder: Path | None
    is_apache: bool = False

    @property
    def data_folder(self) -> Path:
        """Where its first node keeps the partitions; skips the test where they are out of reach."""
        return self.folder or pytest.skip(f"{CANNOT_RUN_HERE}the files of a given cluster are out of reach")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cluster",
        metavar="HOST:PORT",
        help="bootstrap servers that stand in for the node of Apache Kafka which tests share",
    )


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Brokers and logs that a module's tests crashed on purpose let go of their files before the next module."""
    yield
    with warnings.catch_warnings():
        # kafka-python forgets the sockets of a connection that was refused.
        warnings.simplefilter("ignore", ResourceWarning)
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
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def apache_kafka(request: pytest.FixtureRequest) -> Iterator[Target]:
    """One node of Apache Kafka, or the cluster of `--cluster`, for the whole run; mark the test `java`."""
    if given := request.config.getoption("--cluster"):
        yield Target(given, None, is_apache=True)
        return
    request.getfixturevalue("java")
    with ApacheKafka(settings=NO_RETENTION) as kafka:
        yield Target(kafka.bootstrap_servers, kafka.data_folder(1), is_apache=True)


@pytest.fixture(scope="session")
def apache_of_three(java: None) -> Iterator[ApacheKafka]:
    with ApacheKafka(nodes=3) as kafka:
        yield kafka


@pytest.fixture
def three_nodes(apache_of_three: ApacheKafka) -> ApacheKafka:
    """Three nodes of Apache Kafka, all of them up: a test may kill one. Mark the test `java`."""
    apache_of_three.revive()
    return apache_of_three


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
    name = "embedded" if request.param == "embedded" else "apache_kafka"
    return cast("Target", request.getfixturevalue(name))


@pytest.fixture(scope="session")
def bootstrap(target: Target) -> str:
    """Bootstrap servers of the embedded broker and, in a second run of the test, of Apache Kafka."""
    return target.bootstrap_servers


class Secured(NamedTuple):
    """A running single node where clients log in by SCRAM-SHA-512 and only `admin` may do everything.

    `settings_of(user)`: what a client needs beside the bootstrap servers to log in.
    """

    bootstrap_servers: str
    settings_of: Callable[[str], dict[str, str]]


@pytest.fixture(scope="session")
def secured_embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One embedded broker with authorization on, for the whole run."""
    from oncestream import Broker
    from oncestream.broker.security.users import add_user_offline

    folder = tmp_path_factory.mktemp("secured")
    for name, password in PASSWORDS.items():
        add_user_offline(folder, name, password)
    with Broker(
        folder, sasl_mechanisms="SCRAM-SHA-512", authorization=True, super_users="User:admin"
    ) as broker:
        yield Secured(broker.bootstrap_servers, scram_settings)


@pytest.fixture(scope="session")
def secured_apache(java: None) -> Iterator[Secured]:
    """One node of Apache Kafka with an authorizer, for the whole run; mark the test `java`."""
    with ApacheKafka(users=PASSWORDS, super_users=("admin",), settings=NO_RETENTION) as kafka:
        yield Secured(kafka.bootstrap_servers, kafka.client_settings)


@pytest.fixture(scope="session", params=["embedded", pytest.param("apache", marks=pytest.mark.java)])
def secured(request: pytest.FixtureRequest) -> Secured:
    """Users admin (who may do everything), alice, bob and carol, on the embedded broker and on Apache Kafka."""
    return cast("Secured", request.getfixturevalue(f"secured_{request.param}"))


def scram_settings(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
    }


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a cluster or a Spark session run on one worker of pytest-xdist."""
    for item in items:
        if item.get_closest_marker("java") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_java_group(item)))
        if IS_SOAK:
            item.add_marker(pytest.mark.timeout(SOAK_TIMEOUT_S), append=False)


def _java_group(item: pytest.Item) -> str:
    fixtures = getattr(item, "fixturenames", ())
    if "three_nodes" in fixtures:
        return "three-nodes"
    return "java-spark" if "spark" in item.path.parts else "java"


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: no collection of garbage need look at it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """The last lines say what could not run on this machine, and why, and what failed, a line each."""
    yield
    _tell_left_out(terminalreporter)
    failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    if failed:
        terminalreporter.section("Failed", red=True)
    for report in failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = str(crash.message if crash else report.longrepr).strip().partition("\n")[0]
        terminalreporter.line(f"{report.nodeid} - {reason[:REASON_CHARACTERS_MAX]}")


def _tell_left_out(terminalreporter: pytest.TerminalReporter) -> None:
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
