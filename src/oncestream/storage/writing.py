"""The write side of a log: append, roll, sync, close."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from oncestream.records.batch import LOG_APPEND_TIME, BatchHeader, check_batch, parse_header, stamp
from oncestream.records.control import EndMarker, build_marker
from oncestream.storage.config import LogConfig
from oncestream.storage.durability import Durability, SyncTicket
from oncestream.storage.files import OpenFile
from oncestream.storage.place import LoadedLog, LogPlace
from oncestream.storage.producers import BatchTrace
from oncestream.storage.reading import LogReader
from oncestream.storage.segment import Segment, segment_path
from oncestream.storage.snapshot import write_snapshot
from oncestream.storage.steps import Steps, run_here, step
from oncestream.storage.validation import check_client_batch, check_records, prepare
from oncestream.wire.error_codes import ErrorCode, KafkaError

_new: Final = tuple.__new__  # half the price of calling the class


class Appended(NamedTuple):
    """Where a batch went; for a duplicate, where it had gone before. The time is -1 under CreateTime."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    start_offset: int
    duplicate: bool


class LogWriter(LogReader):
    """What makes a log grow, and durable. `Log` adds what makes it shrink."""

    def __init__(self, place: LogPlace, loaded: LoadedLog, config: LogConfig) -> None:
        durability = Durability(
            place.key.pack(),
            place.folder,
            place.disk,
            end_offset=loaded.end_offset,
            new_folder=loaded.is_new,
        )
        super().__init__(loaded, durability)
        self.topic = place.topic
        self.partition = place.partition
        self.topic_id = place.topic_id
        self.folder = place.folder
        self.config = config
        self._place = place
        self._room = place.room
        self._journal = place.journal
        self.retired = False  # its topic was deleted
        self._torn = False  # a failed write left something behind the last whole batch

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._opens_batches = config.opens_batches
        self._roll_limits = config.roll_limits

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
        if batch.readonly:
            batch = memoryview(bytearray(batch))
        if not internal:
            header = check_client_batch(batch, header, config)
        if self._opens_batches or header.attributes & LOG_APPEND_TIME:
            batch = prepare(batch, header, config, now_ms)
            header = parse_header(batch)
            append_time_ms = now_ms if config.log_append_time else -1
        elif header.max_timestamp - now_ms > config.timestamp_after_max_ms:
            check_records(batch, header, config, now_ms)
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
            self._producers.apply(header, base_offset, now_ms)
        end_offset = self.durability.end_offset
        return _new(Appended, (base_offset, end_offset - 1, append_time_ms, self.start_offset, False))

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
        aborted = self._producers.apply_marker(header, marker, offset, now_ms)
        if aborted is not None:
            self._segments[-1].note_abort(aborted)
        append_time_ms = now_ms if self._config.log_append_time else -1
        return Appended(offset, offset, append_time_ms, self.start_offset, False)

    def unsynced(self) -> SyncTicket | None:
        """What a sync must cover to make everything written so far durable; None if it is."""
        return self.durability.ticket()

    def synced(self, ticket: SyncTicket) -> None:
        """The ticket has run: moves both offsets up, or, if it failed, fails the log for good and raises.

        Of a log whose topic was deleted meanwhile there is nothing to say.
        """
        if self.retired:
            return
        if ticket.error is not None:
            raise self._fail(storage_error(f"sync of {self.folder.name} failed: {ticket.error}"))
        if self.failed is not None:
            raise self._failure()
        self.durability.settled(ticket)
        self._forget_ended()

    @property
    def in_journal(self) -> bool:
        """Whether a flush of the journal makes durable all that is not."""
        return self._journal.active and self.durability.is_journaled

    def journaled(self, end_offset: int) -> None:
        """The journal was flushed when its last batch of this log ended at `end_offset`."""
        if self.failed is None:
            self.durability.journaled(end_offset)
            self._forget_ended()

    def flush_indexes(self) -> Steps:
        """Writes index entries and epochs that are only in memory: before the recovery point may move."""
        closed = [segment for segment in self._segments[:-1] if not segment.is_frozen]
        files = [file for segment in closed for file in segment.flush_indexes(closing=True)]
        self._segments[-1].flush_indexes()
        if files or not self._epochs.is_written:
            yield from step(partial(self._sync_indexes, files))
        for segment in closed:
            segment.freeze()

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
            run_here(self.flush_indexes())
            self._sync_indexes(self._segments[-1].flush_indexes(closing=True))
            self._snapshot()
        except OSError as error:
            self._fail(self._room.error_for(f"closing {self.folder.name}", error))
        except KafkaError as error:
            self._fail(error)

    def retire(self) -> None:
        """The log's topic is deleted: whoever still holds the log can do no harm to a new one of its name."""
        self.retired = True
        self._epochs.retire()
        self.failed = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.folder.name} was deleted")

    # Inside.

    def _sync_indexes(self, files: list[OpenFile]) -> None:
        """On any thread."""
        for file in files:
            self._place.disk.sync(file.fd)
        self._epochs.flush()

    def _forget_ended(self) -> None:
        if self._producers.ended:
            self._producers.forget_ended(self.durability.synced_offset)

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
        durability = self.durability
        base_offset = durability.end_offset
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
            file = durability.live = segment.append(
                batch,
                base_offset,
                last_offset,
                header.max_timestamp,
                self._config.index_interval_bytes,
                durability.live,
            )
        except OSError as error:
            self._torn = True
            with suppress(OSError):  # then it is cut off before the next write, or at the next start
                self._cut_torn()
            raise self._room.error_for(f"write to {segment.path}", error) from error
        if self._room.is_full:
            self._room.wrote()
        end_offset = last_offset + 1
        durability.wrote(file, end_offset)
        if not self._add_to_journal(batch, end_offset):
            durability.left_out(end_offset)
        return base_offset

    def _add_to_journal(self, batch: memoryview, end_offset: int) -> bool:
        """Not the first batches of a file: all before it, and its name, are to be durable before they are."""
        journal, durability = self._journal, self.durability
        return journal.active and not durability.has_new_names and journal.add(durability, batch, end_offset)

    def _cut_torn(self) -> None:
        if self._torn:
            self._segments[-1].undo_write()
            self._torn = False

    def _fail(self, error: KafkaError) -> KafkaError:
        """For good. What the journal has of the log, and the files may lack, stays there for the next start."""
        if self.failed is None:
            self.failed = error
        if self.durability.needs_journal:
            self._journal.stop()
        return self._failure()

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
        self.durability.rolled(files)
        self._segments.append(new)
        return new

    def _snapshot(self) -> None:
        path = segment_path(self.folder, self.end_offset, ".snapshot")
        write_snapshot(path, self._producers.by_id.values(), self._place.disk)


def storage_error(message: str) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
