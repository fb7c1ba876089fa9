"""A partition's log: append, sync, retain, compact. All on its owner's thread but the `run` of tickets and jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oncestream.storage.compaction import CompactionJob, plan_compaction
from oncestream.storage.config import LogConfig
from oncestream.storage.place import LoadedLog, LogPlace
from oncestream.storage.retention import segments_below, segments_to_delete
from oncestream.storage.segment import SUFFIXES, Segment, segment_path
from oncestream.storage.steps import Steps, run_here
from oncestream.storage.swap import swap_in
from oncestream.storage.tidy import SWAP
from oncestream.storage.writing import LogWriter, storage_error


class Log(LogWriter):
    """One partition. State changes only after the write that it describes succeeded."""

    def __init__(self, place: LogPlace, loaded: LoadedLog, config: LogConfig) -> None:
        super().__init__(place, loaded, config)
        self.first_dirty_offset = loaded.first_dirty_offset
        self._compacting = False

    def delete_before(self, offset: int) -> int:
        """Moves the start of the log up to `offset`, durably; the new start."""
        if offset > self.end_offset or offset < 0:
            raise self._out_of_range(offset)
        if offset > self.start_offset:
            with self._storing("deleting records"):
                self._move_start(offset)
                self._delete_segments(segments_below(self._segments, offset))  # first: it makes room
                run_here(self._place.persist_offsets())
        return self.start_offset

    def apply_retention(self, now_ms: int) -> int:
        """Deletes what time, size and start offset give up, rolls what is old, forgets silent producers."""
        if self.failed is not None:
            return 0
        self._producers.expire(now_ms, self._config.producer_id_expiration_ms)
        with self._storing("retention"):
            # Closed segments first: on a full disk they make the room that a new one needs.
            count = min(self._expired(now_ms), len(self._segments) - 1)
            self._give_up(count)
            self._roll_if_old(now_ms)
            more = self._expired(now_ms)
            if more == len(self._segments):
                self._roll(now_ms)
            self._give_up(more)
        return count + more

    def plan_compaction(self, now_ms: int) -> CompactionJob | None:
        """What is to be compacted now, for `CompactionJob.run` on any thread; None if nothing is."""
        if self.failed is not None or self._compacting or not self._config.cleanup_compact:
            return None
        first_dirty = self.first_dirty_offset
        if first_dirty is None or not self.start_offset <= first_dirty <= self.end_offset:
            first_dirty = self.start_offset
        job = plan_compaction(
            self.folder,
            self._segments,
            self._producers,
            self._config,
            first_dirty_offset=first_dirty,
            stable_offset=self.stable_offset(self.settled_offset),
            now_ms=now_ms,
            disk=self._place.disk,
        )
        self._compacting = job is not None
        return job

    def finish_compaction(self, job: CompactionJob) -> Steps:
        """Puts the segments of a job that has run in the place of the old ones; call it for a failed job too."""
        if isinstance(job.error, OSError):
            job.error = self._room.error_for(f"compaction of {self.folder.name}", job.error)
        try:
            if job.error is None and not self._is_over():
                yield from self._announce_holes(job)
            # If it is over, what the job wrote is dropped at the next start, if the folder is still this log's.
            if not self._is_over() and (yield from swap_in(job, self._segments, self._place, self._is_over)):
                self.first_dirty_offset = job.end_offset
        except OSError as error:
            if not self.retired:
                message = f"compaction of {self.folder.name} stopped half-way: {error}"
                raise self._fail(storage_error(message)) from error
        finally:
            self._compacting = False

    def _announce_holes(self, job: CompactionJob) -> Steps:
        """Recovery must know, whatever happens next, that there may be holes, and that no journal fills them."""
        known = self.first_dirty_offset
        try:
            yield from self._place.persist_recovery_point(job.end_offset)
            if known is None:
                self.first_dirty_offset = job.first_dirty_offset
                yield from self._place.persist_offsets()
        except OSError as error:
            self.first_dirty_offset = known
            job.error = self._room.error_for(f"compaction of {self.folder.name}", error)

    def _is_over(self) -> bool:
        return self.failed is not None

    def _roll_if_old(self, now_ms: int) -> None:
        live = self._segments[-1]
        first_timestamp = live.first_timestamp()
        if live.size_bytes and first_timestamp >= 0 and now_ms - first_timestamp > self._config.roll_ms:
            self._roll(now_ms)

    def _expired(self, now_ms: int) -> int:
        return segments_to_delete(self._segments, self.start_offset, self._config, now_ms)

    def _give_up(self, count: int) -> None:
        if count:
            self._move_start(max(self.start_offset, self._segments[count].base_offset))
            self._delete_segments(count)

    def _move_start(self, offset: int) -> None:
        self.start_offset = offset
        self.durability.begins_at(offset)
        self._epochs.cut_start(offset)

    def _delete_segments(self, count: int) -> None:
        self._undecide(self._segments[:count])
        for segment in self._segments[:count]:
            for path in (*segment.paths, str(segment_path(self.folder, segment.base_offset, ".snapshot"))):
                self._place.pool.drop(path)
                Path(path).unlink(missing_ok=True)
        del self._segments[:count]

    def _undecide(self, doomed: list[Segment]) -> None:
        """A swap that is decided and not done would bring back, at the next start, what is deleted now."""
        paths = [
            path
            for segment in doomed
            for suffix in SUFFIXES  # the log's own file first: it is the decision
            if (path := segment_path(self.folder, segment.base_offset, suffix + SWAP)).exists()
        ]
        for path in paths:
            self._place.pool.drop(str(path))
            self._place.disk.remove(path)
        if paths:
            self._place.disk.sync_folder(self.folder)

    @contextmanager
    def _storing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._room.error_for(f"{doing} of {self.folder.name}", error) from error
