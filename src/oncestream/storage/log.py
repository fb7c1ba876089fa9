"""A partition's log: append, sync, retain, compact. All on its owner's thread but the `run` of tickets and jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from oncestream.records.batch import LOG_APPEND_TIME, BatchHeader, check_batch, parse_header, stamp
from oncestream.records.control import EndMarker, build_marker
from oncestream.storage.compaction import CompactionJob, plan_compaction
from oncestream.storage.config import LogConfig
from oncestream.storage.place import LoadedLog, LogPlace
from oncestream.storage.producers import BatchTrace
from oncestream.storage.reading import LogReader
from oncestream.storage.retention import segments_below, segments_to_delete
from oncestream.storage.segment import Segment, segment_path
from oncestream.storage.snapshot import write_snapshot
from oncestream.storage.swap import swap_in
from oncestream.storage.sync import SyncTicket, Unsynced
from oncestream.storage.validation import check_client_batch, check_timestamp, prepare
from oncestream.wire.error_codes import ErrorCode, KafkaError


class Appended(NamedTuple):
    """Where a batch went; for a duplicate, where it had gone before. The time is -1 under CreateTime."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    start_offset: int
    duplicate: bool


class Log(LogReader):
    """One partition. State changes only after the write that it describes succeeded."""

    def __init__(self, place: LogPlace, loaded: LoadedLog, config: LogConfig) -> None:
        super().__init__(loaded)
        self.topic = place.topic
        self.partition = place.partition
        self.topic_id = place.topic_id
        self.folder = place.folder
        self.first_dirty_offset = loaded.first_dirty_offset
        self.config = config
        self._place = place
        self._room = place.room
        self._unsynced = Unsynced(place.folder, place.disk, new_folder=loaded.is_new)
        self._compacting = False
        self._torn = False  # a failed write left something behind the last whole batch

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._opens_batches = config.opens_batches
        self._roll_limits = config.roll_limits

    # Writing.

    def append(self, batch: memoryview, *, internal: bool = False) -> Appended:
        """Appends the one batch a client sent (or, internal, a coordinator made), stamping it in place."""
        if self.failed is not None:
            raise self._failure()
        config = self._config
        if len(batch) > config.max_message_bytes:
            message = f"batch of {len(batch)} bytes; the limit is {config.max_message_bytes}"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, message)
        header = check_batch(batch)
        now_ms = self._place.clock_ms()
        append_time_ms = -1
        if not internal:
            check_client_batch(header)
        if batch.readonly:
            batch = memoryview(bytearray(batch))
        if self._opens_batches or header.attributes & LOG_APPEND_TIME:
            batch = prepare(batch, header, config, now_ms)
            header = parse_header(batch)
            append_time_ms = now_ms if config.log_append_time else -1
        elif header.max_timestamp - now_ms > config.timestamp_after_max_ms:
            check_timestamp(header.max_timestamp, now_ms, config)
        if header.producer_id >= 0:
            duplicate = self._check_producer(header, internal=internal)
            if duplicate is not None:
                return Appended(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp,
                    self.start_offset,
                    True,
                )
        base_offset = self._write(batch, header, now_ms)
        if header.producer_id >= 0:
            self._producers.apply(header, base_offset)
        return Appended(base_offset, self.end_offset - 1, append_time_ms, self.start_offset, False)

    def append_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, commit: bool
    ) -> Appended:
        """Ends the producer's transaction here with a control batch."""
        if self.failed is not None:
            raise self._failure()
        self._producers.check_marker(producer_id, producer_epoch, coordinator_epoch)
        now_ms = self._place.clock_ms()
        marker = EndMarker(commit, coordinator_epoch)
        batch = memoryview(
            build_marker(
                marker,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                timestamp_ms=now_ms,
                log_append_time=self._config.log_append_time,
            )
        )
        header = parse_header(batch)
        offset = self._write(batch, header, now_ms)
        aborted = self._producers.apply_marker(header, marker, offset)
        if aborted is not None:
            self._segments[-1].note_abort(aborted)
        append_time_ms = now_ms if self._config.log_append_time else -1
        return Appended(offset, offset, append_time_ms, self.start_offset, False)

    def unsynced(self) -> SyncTicket | None:
        """What a sync must cover to make everything written so far durable; None if it is."""
        return self._unsynced.ticket(self.end_offset)

    def synced(self, ticket: SyncTicket) -> None:
        """The ticket has run: moves `synced_offset` up, or, if it failed, fails the log for good and raises."""
        if ticket.error is not None:
            raise self._fail(_storage_error(f"sync of {self.folder.name} failed: {ticket.error}"))
        if self.failed is not None:
            raise self._failure()
        self._unsynced.done(ticket, self.end_offset)
        self.synced_offset = max(self.synced_offset, ticket.end_offset)
        self._producers.forget_ended(self.synced_offset)

    # Giving up data.

    def delete_before(self, offset: int) -> int:
        """Moves the start of the log up to `offset`, durably; the new start."""
        if offset > self.end_offset or offset < 0:
            raise self._out_of_range(offset)
        if offset > self.start_offset:
            with self._storing("deleting records"):
                self._move_start(offset)
                self._delete_segments(segments_below(self._segments, offset))  # first: it makes room
                self._place.persist_offsets()
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
            stable_offset=self.stable_offset(self.synced_offset),
            now_ms=now_ms,
            disk=self._place.disk,
        )
        self._compacting = job is not None
        return job

    def finish_compaction(self, job: CompactionJob) -> None:
        """Puts the segments of a job that has run in the place of the old ones; call it for a failed job too."""
        self._compacting = False
        if isinstance(job.error, OSError):
            job.error = self._room.error_for(f"compaction of {self.folder.name}", job.error)
        if self.failed is not None:
            return  # what the job wrote is dropped at the next start, if the folder is still this log's
        if job.error is None and self.first_dirty_offset is None:
            self._announce_holes(job)
        try:
            if swap_in(job, self._segments, self._place):
                self.first_dirty_offset = job.end_offset
        except OSError as error:
            message = f"compaction of {self.folder.name} stopped half-way: {error}"
            raise self._fail(_storage_error(message)) from error

    def flush_indexes(self) -> None:
        """Writes index entries and epochs that are only in memory: before the recovery point may move."""
        for segment in self._segments[:-1]:
            if not segment.is_frozen:
                for file in segment.flush_indexes(closing=True):
                    self._place.disk.sync(file.fd)
                segment.freeze()
        self._segments[-1].flush_indexes()
        self._epochs.flush()

    def close(self) -> None:
        """Everything durable, a producer snapshot at the end; if that fails, `failed` says why."""
        if self.failed is not None:
            return
        try:
            self._cut_torn()
            ticket = self.unsynced()
            if ticket is not None:
                ticket.run()
                self.synced(ticket)
            self.flush_indexes()
            for file in self._segments[-1].flush_indexes(closing=True):
                self._place.disk.sync(file.fd)
            self._snapshot()
        except OSError as error:
            self._fail(self._room.error_for(f"closing {self.folder.name}", error))
        except KafkaError as error:
            self._fail(error)

    def retire(self) -> None:
        """The log's topic is deleted: whoever still holds the log can do no harm to a new one of its name."""
        self.failed = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.folder.name} was deleted")

    # Inside.

    def _check_producer(self, header: BatchHeader, *, internal: bool) -> BatchTrace | None:
        if internal:
            self._producers.check_epoch(header)
            return None
        return self._producers.check(header)

    def _write(self, batch: memoryview, header: BatchHeader, now_ms: int) -> int:
        size = len(batch)
        limits = self._roll_limits
        if size > limits.size_bytes:
            message = f"batch of {size} bytes; a segment holds {limits.size_bytes}"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, message)
        unsynced = self._unsynced
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        segment = self._segments[-1]
        try:
            if self._torn:
                self._cut_torn()
            if segment.size_bytes and segment.must_roll(
                size, last_offset, header.max_timestamp, now_ms, limits
            ):
                segment = self._roll(now_ms)
            stamp(batch, base_offset, self.leader_epoch)
            file = unsynced.live = segment.append(
                batch,
                base_offset,
                last_offset,
                header.max_timestamp,
                self._config.index_interval_bytes,
                unsynced.live,
            )
        except OSError as error:
            self._torn = True
            with suppress(OSError):  # then it is cut off before the next write, or at the next start
                self._cut_torn()
            raise self._room.error_for(f"write to {segment.path}", error) from error
        if self._room.is_full:
            self._room.wrote()
        self.end_offset = last_offset + 1
        unsynced.tail = (file, self.end_offset)
        return base_offset

    def _cut_torn(self) -> None:
        if self._torn:
            self._segments[-1].undo_write()
            self._torn = False

    def _announce_holes(self, job: CompactionJob) -> None:
        """Recovery must know, whatever happens next, that offsets may have holes from now on."""
        self.first_dirty_offset = job.first_dirty_offset
        try:
            self._place.persist_offsets()
        except OSError as error:
            self.first_dirty_offset = None
            job.error = self._room.error_for(f"compaction of {self.folder.name}", error)

    def _fail(self, error: KafkaError) -> KafkaError:
        if self.failed is None:
            self.failed = error
        return self._failure()

    def _failure(self) -> KafkaError:
        """Made anew each time: an exception raised again and again would grow its traceback."""
        assert self.failed is not None
        return KafkaError(self.failed.code, self.failed.message)

    def _roll_if_old(self, now_ms: int) -> None:
        live = self._segments[-1]
        first_timestamp = live.first_timestamp()
        if live.size_bytes and first_timestamp >= 0 and now_ms - first_timestamp > self._config.roll_ms:
            self._roll(now_ms)

    def _roll(self, now_ms: int) -> Segment:
        """Closes the live segment and opens an empty one at the end of the log."""
        self._cut_torn()
        old = self._segments[-1]
        assert old.size_bytes, "two segments cannot have one base offset"
        files = old.flush_indexes(closing=True)
        self._snapshot()
        place = self._place
        new = Segment(
            self.folder, self.end_offset, pool=place.pool, disk=place.disk, created_ms=now_ms, live=True
        )
        new.create()
        old.freeze()
        self._unsynced.roll(files)
        self._segments.append(new)
        return new

    def _snapshot(self) -> None:
        path = segment_path(self.folder, self.end_offset, ".snapshot")
        write_snapshot(path, self._producers.by_id.values(), self._place.disk)

    def _expired(self, now_ms: int) -> int:
        return segments_to_delete(self._segments, self.start_offset, self._config, now_ms)

    def _give_up(self, count: int) -> None:
        if count:
            self._move_start(max(self.start_offset, self._segments[count].base_offset))
            self._delete_segments(count)

    def _move_start(self, offset: int) -> None:
        self.start_offset = offset
        self.synced_offset = max(self.synced_offset, offset)
        self._epochs.cut_start(offset)

    def _delete_segments(self, count: int) -> None:
        for segment in self._segments[:count]:
            for path in (*segment.paths, str(segment_path(self.folder, segment.base_offset, ".snapshot"))):
                self._place.pool.drop(path)
                Path(path).unlink(missing_ok=True)
        del self._segments[:count]

    @contextmanager
    def _storing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._room.error_for(f"{doing} of {self.folder.name}", error) from error


def _storage_error(message: str) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
