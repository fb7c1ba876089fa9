"""Order of the suite under pytest-xdist: the long groups start first, and a test that kills its worker runs once.

pytest-xdist puts what a dead worker had back into the queue, done or not. The test that killed it kills the next
worker, until none is left and the rest of the suite never runs. A worker that gets only what is done, or a single
test, waits for more for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

# Longest first. `make test` prints the minutes of each group at its end.
LONG_GROUPS: Final = ("java", "spark", "three-nodes", "java-spark", "wheel")
NEXT_MIN: Final = 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The queue follows the order of collection: long groups, then slow tests, then the rest."""
    items.sort(key=_rank)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SuiteScheduling:
    return SuiteScheduling(config, log)


class SuiteScheduling(LoadGroupScheduling):  # type: ignore[misc]
    def remove_node(self, node: WorkerController) -> str | None:
        """Takes away a worker that has ended or died; answers the test that it died of."""
        had = self.assigned_work[node]
        died_of = next((test for test, is_done in _tests(had) if not is_done), None)
        if died_of is not None:
            had[self._split_scope(died_of)][died_of] = True
        for name in [name for name, unit in had.items() if all(unit.values())]:
            del had[name]
        super().remove_node(node)
        return died_of

    def _reschedule(self, node: WorkerController) -> None:
        """Gives a worker more to do. It runs a test only once it knows of the next one, or of the end."""
        super()._reschedule(node)
        while (
            self.workqueue
            and not node.shutting_down
            and self._pending_of(self.assigned_work[node]) < NEXT_MIN
        ):
            super()._reschedule(node)


def _tests(units: dict[str, dict[str, bool]]) -> Iterator[tuple[str, bool]]:
    return chain.from_iterable(unit.items() for unit in units.values())


def group_of(item: pytest.Item) -> str | None:
    mark = item.get_closest_marker("xdist_group")
    return None if mark is None else str(mark.args[0])


def _rank(item: pytest.Item) -> int:
    group = group_of(item)
    if group in LONG_GROUPS:
        return LONG_GROUPS.index(group)
    return len(LONG_GROUPS) + (item.get_closest_marker("slow") is None)
