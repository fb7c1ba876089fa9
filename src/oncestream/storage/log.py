"""A partition's log: append, read, look up, sync, delete. Everything but SyncTicket.run is the owner's thread's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from oncestream.records.batch import LOG_APPEND_TIME, BatchHeader, check_batch, parse_header, stamp
from oncestream.records.control import EndMarker, build_marker
from oncestream.storage import lookup
from oncestream.storage.compaction import CompactionJob, plan_compaction
from oncestream.storage.config import LogConfig
from oncestream.storage.files import FileSlice
from oncestream.storage.index import AbortedTransaction, TimestampOffset
from oncestream.storage.place import LoadedLog, LogPlace
from oncestream.storage.producers import BatchTrace, OpenTransaction, ProducerInfo
from oncestream.storage.retention import segments_to_delete
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


class Log:
    """One partition. State changes only after the write that it describes succeeded."""

    def __init__(self, place: LogPlace, loaded: LoadedLog, config: LogConfig) -> None:
        self.topic = place.topic
        self.partition = place.partition
        self.topic_id = place.topic_id
        self.folder = place.folder
        self.start_offset = loaded.start_offset
        self.end_offset = loaded.end_offset
        self.synced_offset = loaded.end_offset
        self.first_dirty_offset = loaded.first_dirty_offset
        self.damage = loaded.damage
        self.failed: KafkaError | None = None
        if loaded.damage is not None:
            self.failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(loaded.damage))
        self.config = config
        self._place = place
        self._segments = loaded.segments
        self._producers = loaded.producers
        self._epochs = loaded.epochs
        self.leader_epoch = loaded.epochs.latest
        self._unsynced = Unsynced(place.folder, place.disk, new_folder=loaded.is_new)
        self._compacting = False

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._opens_batches = config.opens_batches

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest open transaction. See `stable_offset` for what readers may see."""
        return next(iter(self._producers.open), None)

    @property
    def first_segment_offset(self) -> int:
        return self._segments[0].base_offset

    # Writing.

    def append(self, batch: memoryview, *, internal: bool = False) -> Appended:
        """Appends the one batch a client sent (or, internal, a coordinator made), stamping it in place."""
        if self.failed is not None:
            raise self.failed
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
            raise self.failed
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
            raise self._fail(f"sync of {self.folder.name} failed: {ticket.error}")
        if self.failed is not None:
            raise self.failed
        self._unsynced.done(ticket, self.end_offset)
        self.synced_offset = max(self.synced_offset, ticket.end_offset)

    # Reading.

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, *, whole_first_batch: bool = True
    ) -> list[FileSlice]:
        """Where in the files the batches from `offset` to below `upper_offset` lie.

        At most `max_bytes`, the last batch cut if need be; the first batch whole even if it is larger,
        or nothing if it may not be.
        """
        self._check_range(offset)
        upper_offset = min(upper_offset, self.end_offset if self.failed is None else self.synced_offset)
        if offset >= upper_offset:
            return []
        return lookup.slices(
            self._segments, offset, max_bytes, upper_offset, whole_first_batch=whole_first_batch
        )

    def batches(self, offset: int, upper_offset: int | None = None) -> Iterator[memoryview]:
        """Whole batches, one by one: for replay and tests."""
        self._check_range(offset)
        upper_offset = self.end_offset if upper_offset is None else upper_offset
        for _, batch in lookup.batches(self._segments, offset, upper_offset):
            yield batch

    def stable_offset(self, high_watermark: int) -> int:
        """Up to where a read_committed reader may see: no open transaction, none whose end is not yet visible."""
        unstable = self._producers.first_unstable(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def aborted(self, first_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        return lookup.aborted(self._segments, first_offset, upper_offset)

    def offset_for_timestamp(self, timestamp_ms: int, upper_offset: int) -> TimestampOffset | None:
        """The first record at or after a time, below `upper_offset`."""
        return lookup.first_at_or_after(self._segments, timestamp_ms, self.start_offset, upper_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        return lookup.largest_timestamp(self._segments)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self._epochs.end_offset_of(epoch, self.end_offset)

    def producers(self) -> list[ProducerInfo]:
        return self._producers.describe()

    def open_transactions(self) -> list[OpenTransaction]:
        """Oldest first."""
        return self._producers.open_transactions()

    # Giving up data.

    def delete_before(self, offset: int) -> int:
        """Moves the start of the log up to `offset`, durably; the new start."""
        if offset > self.end_offset or offset < 0:
            raise self._out_of_range(offset)
        if offset > self.start_offset:
            self._move_start(offset)
            self._place.persist_offsets()
            self._delete_segments(segments_to_delete(self._segments, offset, _KEEP_ALL, 0))
        return self.start_offset

    def apply_retention(self, now_ms: int) -> int:
        """Deletes what time, size and start offset give up, rolls what is old, forgets silent producers."""
        if self.failed is not None:
            return 0
        self._producers.expire(now_ms, self._config.producer_id_expiration_ms)
        live = self._segments[-1]
        first_timestamp = live.first_timestamp()
        if live.size_bytes and first_timestamp >= 0 and now_ms - first_timestamp > self._config.roll_ms:
            self._roll(now_ms)
        count = segments_to_delete(self._segments, self.start_offset, self._config, now_ms)
        if count == len(self._segments):
            self._roll(now_ms)
        if count:
            self._move_start(max(self.start_offset, self._segments[count].base_offset))
            self._delete_segments(count)
        return count

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
        if job.error is None and self.first_dirty_offset is None:
            # Recovery must know, whatever happens next, that offsets may have holes from now on.
            self.first_dirty_offset = job.first_dirty_offset
            self._place.persist_offsets()
        if swap_in(job, self._segments, self._place):
            self.first_dirty_offset = job.end_offset

    def flush_indexes(self) -> None:
        """Writes the live segment's new index entries to their files."""
        self._segments[-1].flush_indexes()

    def close(self) -> None:
        """Everything durable, a producer snapshot at the end; the log is not used after it."""
        if self.failed is not None:
            return
        ticket = self.unsynced()
        if ticket is not None:
            ticket.run()
            self.synced(ticket)
        for file in self._segments[-1].flush_indexes(closing=True):
            self._place.disk.sync(file.fd)
        self._snapshot()

    # Inside.

    def _check_producer(self, header: BatchHeader, *, internal: bool) -> BatchTrace | None:
        if internal:
            self._producers.check_epoch(header)
            return None
        return self._producers.check(header)

    def _write(self, batch: memoryview, header: BatchHeader, now_ms: int) -> int:
        size = len(batch)
        config = self._config
        if size > config.segment_bytes:
            message = f"batch of {size} bytes; a segment holds {config.segment_bytes}"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, message)
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        segment = self._segments[-1]
        try:
            if segment.size_bytes and segment.must_roll(
                size, last_offset, header.max_timestamp, now_ms, config
            ):
                segment = self._roll(now_ms)
            stamp(batch, base_offset, self.leader_epoch)
            self._unsynced.live = segment.append(
                batch, base_offset, last_offset, header.max_timestamp, config.index_interval_bytes
            )
        except OSError as error:
            raise self._undo(segment, error) from error
        self.end_offset = last_offset + 1
        return base_offset

    def _undo(self, segment: Segment, error: OSError) -> KafkaError:
        try:
            segment.undo_write()
        except OSError as second:
            return self._fail(f"write to {segment.path} failed and could not be undone: {error}; {second}")
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"write to {segment.path} failed: {error}")

    def _fail(self, message: str) -> KafkaError:
        if self.failed is None:
            self.failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
        return self.failed

    def _roll(self, now_ms: int) -> Segment:
        """Closes the live segment and opens an empty one at the end of the log."""
        old = self._segments[-1]
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

    def _check_range(self, offset: int) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise self._out_of_range(offset)

    def _out_of_range(self, offset: int) -> KafkaError:
        message = f"offset {offset} is outside {self.start_offset} to {self.end_offset}"
        return KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, message)


_KEEP_ALL = LogConfig(cleanup_delete=False)
