"""`run_torture`: clients, a pipeline and faults together; then everything drains and is checked."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from oncestream.client.admin import NewTopic, create_topics, delete_topics
from oncestream.client.cluster import Cluster
from oncestream.client.lag import group_lags, total_records
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import ProxyFailed, RequestTimedOut, TortureStuck
from oncestream.testing.faults import FaultKind
from oncestream.testing.proxy import FaultProxy
from oncestream.verify.final_log import stable_ends
from oncestream.verify.history import HistoryWriter, Kind, Phase
from oncestream.verify.torture_check import Topics, check_run
from oncestream.verify.torture_clients import Role, Task, copier_group
from oncestream.verify.torture_cluster import Brokers, Victim
from oncestream.verify.torture_lanes import BrokerLane, Lane, NetworkLane, ProgramLane
from oncestream.verify.torture_live import LiveCounts, Progress
from oncestream.verify.torture_lives import Lives
from oncestream.verify.torture_pipeline import PipelineTask, pipeline_name
from oncestream.verify.torture_plan import BROKER, NETWORK, PIPELINE, Plan, client_names, plan_of
from oncestream.verify.torture_report import Efforts, TortureReport

PARTITIONS: Final = 4
# A broker whose clock jumps deletes nothing and takes what clients with a right clock write.
TOPIC_CONFIGS: Final = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}
LOOK_S: Final = 1.0
DRAIN_S: Final = 180.0
FINISH_S: Final = 90.0
WRITING: Final = (Role.WRITER, Role.SENDER)
WRITERS_MAX: Final = 8  # senders count from here: their numbers are not those of writers
MEMORY_LOOK_S: Final = 2.0

OnProgress = Callable[[Progress], None]


def run_torture(
    victim: Victim,
    folder: Path,
    *,
    seed: int,
    duration_s: float,
    spark: bool = True,
    on_progress: OnProgress = lambda _: None,
) -> TortureReport:
    """`folder`: for data and histories; it stays. The cluster is started, and stopped in the end."""
    plan = plan_of(seed, duration_s, broker=victim.pace, spark=spark)
    victim.start()
    try:
        proxy = FaultProxy(victim.bootstrap_servers).start()
        try:
            found = _Run(victim, proxy, folder, plan, on_progress, spark=spark).all()
        except BaseException:
            with suppress(ProxyFailed):
                proxy.close()
            raise
        return _with_end_of(proxy, found)
    finally:
        victim.stop()


def _with_end_of(proxy: FaultProxy, found: TortureReport) -> TortureReport:
    """What the proxy did not understand is told when it closes."""
    try:
        proxy.close()
    except ProxyFailed as failure:
        return replace(found, problems=(*found.problems, failure.cause_text))
    return found


class _Run:
    def __init__(
        self,
        victim: Victim,
        proxy: FaultProxy,
        folder: Path,
        plan: Plan,
        on_progress: OnProgress,
        *,
        spark: bool,
    ) -> None:
        self._victim = victim
        self._proxy = proxy
        self._folder = folder
        self._histories = folder / "history"
        self._plan = plan
        self._on_progress = on_progress
        self._topics = Topics.new()
        self._brokers = Brokers(victim)
        self._counts = LiveCounts(self._histories)
        self._stop = threading.Event()
        self._begin = time.monotonic()
        self._problems: list[str] = []
        self._memory: dict[str, int] = {}
        self._clients = {(role, number): self._client(role, number) for role, number in client_names()}
        self._pipeline = Lives(PIPELINE, self._pipeline_command, folder / "pipeline.log") if spark else None
        self._network = NetworkLane(proxy, NETWORK, plan.faults[NETWORK], self._histories, self._stop)
        self._lanes = self._all_lanes()

    def all(self) -> TortureReport:
        self._histories.mkdir(parents=True, exist_ok=True)
        # Straight to the cluster: what the run itself asks for meets no fault.
        cluster = Cluster(ClientSettings.of(self._victim.bootstrap_servers))
        try:
            made = [self._topics.inputs, self._topics.copies, self._topics.outputs]
            create_topics(cluster, [NewTopic(name, PARTITIONS, configs=TOPIC_CONFIGS) for name in made])
            self._torture()
            self._drain(cluster)
            self._tell("checking")
            report = check_run(
                cluster, self._histories, self._topics, has_pipeline=self._pipeline is not None
            )
            found = TortureReport(self._efforts(), *report, tuple(self._problems))
            if found.ok and not self._victim.nodes:
                delete_topics(cluster, made)
            return found
        finally:
            self._end()
            cluster.close()

    # -- the torture ---------------------------------------------------------------------------

    def _torture(self) -> None:
        self._begin = time.monotonic()
        for lane in self._lanes:
            lane.start()
        memory_at = 0.0
        with HistoryWriter(self._histories / "memory.jsonl") as history:
            while (now := time.monotonic()) < self._begin + self._plan.duration_s:
                if now - memory_at > MEMORY_LOOK_S:
                    memory_at = now
                    self._memory = self._brokers.memory_bytes()
                    for name, size in self._memory.items():
                        history.write(Kind.MEMORY, Phase.OK, name, amount=size)
                self._tell("running")
                if any(lane.failure is not None for lane in self._lanes):
                    break
                time.sleep(LOOK_S)
        self._stop.set()
        for lane in self._lanes:
            lane.join()
            if lane.failure is not None:
                raise lane.failure

    def _all_lanes(self) -> list[Lane]:
        lanes: list[Lane] = [self._network]
        for lives in self._all_lives():
            faults = self._plan.faults[lives.name]
            replaced = lives is not self._pipeline  # two drivers would share one checkpoint
            lanes.append(ProgramLane(lives, faults, self._histories, self._stop, is_replaced=replaced))
        if BROKER in self._plan.faults:
            faults = self._plan.faults[BROKER]
            lanes.append(BrokerLane(self._brokers, BROKER, faults, self._histories, self._stop))
        return lanes

    # -- the end -------------------------------------------------------------------------------

    def _drain(self, cluster: Cluster) -> None:
        """No more faults: who writes ends first, then those who copy get to the end, then the readers end."""
        self._proxy.clear()
        self._proxy.resume()
        self._proxy.cut_all()  # those that have fallen silent
        self._tell("draining")
        self._finish(*WRITING)
        self._look_after_the_rest()
        self._wait_for_rest(cluster)
        self._wait_for_end(cluster, copier_group(self._topics.inputs), "the copiers")
        if self._pipeline is not None:
            self._wait_for_end(cluster, pipeline_name(self._topics.inputs), "the pipeline")
        self._finish(Role.COPIER, Role.READER, Role.WATCHER)
        self._end()
        self._problems += [problem for lives in self._all_lives() for problem in lives.problems]

    def _end(self) -> None:
        """Leaves no process behind, whatever has happened."""
        self._stop.set()
        for lane in self._lanes:
            lane.join()
        for lives in self._all_lives():
            lives.end()

    def _wait_for_rest(self, cluster: Cluster) -> None:
        """Until the transactions of those who were killed have timed out."""
        inputs = [TopicPartition(self._topics.inputs, number) for number in range(PARTITIONS)]
        try:
            stable_ends(cluster, inputs)
        except RequestTimedOut as error:
            raise TortureStuck(reason=error.cause_text) from error

    def _wait_for_end(self, cluster: Cluster, group: str, who: str) -> None:
        """They have as long as it takes, but must get on."""
        least, deadline = math.inf, 0.0
        while True:
            self._look_after_the_rest()
            lags = group_lags(cluster, group)
            left = total_records(lags) if len(lags) == PARTITIONS else None
            if left == 0:
                return
            if not deadline or (left is not None and left < least):
                least, deadline = left or math.inf, time.monotonic() + DRAIN_S
            if time.monotonic() > deadline:
                self._problems.append(f"{who} did not get on within {DRAIN_S:.0f} s: {left} records left")
                return
            self._tell("draining")
            time.sleep(LOOK_S)

    def _finish(self, *roles: Role) -> None:
        ending = [lives for (role, _), lives in self._clients.items() if role in roles]
        with ThreadPoolExecutor(len(ending)) as pool:
            list(pool.map(lambda lives: lives.finish(FINISH_S), ending))

    # -- who takes part ------------------------------------------------------------------------

    def _client(self, role: Role, number: int) -> Lives:
        def command(life: int) -> list[str]:
            task = Task(
                role,
                number if role is not Role.SENDER else number + WRITERS_MAX,
                life,
                self._proxy.bootstrap_servers,
                self._topics.inputs,
                self._topics.copies,
                PARTITIONS,
                str(self._histories),
                self._plan.seed,
            )
            return ["oncestream.verify.torture_clients", task.to_json()]

        return Lives(f"{role}-{number}", command, self._folder / f"{role}-{number}.log")

    def _pipeline_command(self, _life: int) -> list[str]:
        task = PipelineTask(
            self._proxy.bootstrap_servers,
            self._topics.inputs,
            self._topics.outputs,
            str(self._folder / "checkpoint"),
        )
        return ["oncestream.verify.torture_pipeline", task.to_json()]

    def _all_lives(self) -> list[Lives]:
        return [*self._clients.values(), *([] if self._pipeline is None else [self._pipeline])]

    def _look_after_the_rest(self) -> None:
        """Those that go on when who writes has ended."""
        over = [lives for (role, _), lives in self._clients.items() if role in WRITING]
        for lives in self._all_lives():
            if lives not in over:
                lives.look()

    # -- figures -------------------------------------------------------------------------------

    def _tell(self, stage: str) -> None:
        done, counts = self._efforts(), self._counts.look()
        self._on_progress(Progress(stage, self._plan.duration_s, done, counts, self._memory))

    def _efforts(self) -> Efforts:
        counts: Counter[FaultKind] = sum((lane.counts for lane in self._lanes), Counter())
        return Efforts(
            self._victim.name,
            self._plan.seed,
            time.monotonic() - self._begin,
            sum(lives.count for lives in self._all_lives()),
            counts[FaultKind.KILL],
            counts[FaultKind.FREEZE],
            counts[FaultKind.CLOCK],
            sum(counts[kind] for kind in (FaultKind.DISK_FULL, FaultKind.SLOW_DISK, FaultKind.DISK_ERROR)),
            sum(self._network.counts.values()),
            self._network.hits,
        )
