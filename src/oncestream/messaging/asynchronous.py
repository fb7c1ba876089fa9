"""`AsyncProducer` and `AsyncConsumer`: the same for asyncio. Each has a thread, in which its client lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypedDict, TypeVar, Unpack

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import OncestreamError
from oncestream.messaging.consumer import Consumer
from oncestream.messaging.options import ConsumerNames, ProducerNames
from oncestream.messaging.producer import FLUSH_TIMEOUT_S, Producer
from oncestream.messaging.reader import STEP_S
from oncestream.messaging.record import Delivery, Headers, Record
from oncestream.messaging.worker import Worker, settle

C = TypeVar("C", Producer, Consumer)

TURN_S: Final = 0.1  # so long one reading may keep the thread from other jobs


class SendNames(TypedDict, total=False):
    """The further parameters of `send`, as `Producer.send` has them."""

    key: Any
    partition: int | None
    headers: Headers | None
    timestamp_ms: int | None
    sequence: int | None


class _InThread(Generic[C]):
    """What both have in common: a client that is made by the first job of its thread."""

    _worker: Worker[C]

    async def close(self) -> None:
        try:
            await self._worker.do(lambda client: client.close())
        finally:
            self._worker.stop()

    async def __aenter__(self) -> Self:
        try:
            await self._worker.do(lambda _: None)
        except OncestreamError:
            self._worker.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncProducer(_InThread[Producer]):
    """`Producer` for asyncio; it takes the same parameters.

    async with AsyncProducer("localhost:9092") as producer:
        delivery = await producer.send("/apps/pump:warning", {"celsius": 81})
    """

    def __init__(self, bootstrap_servers: str | None = None, **options: Unpack[ProducerNames]) -> None:
        self._worker = Worker(partial(Producer, bootstrap_servers, **options), _serve)

    async def send(self, topic: str, value: Any, **details: Unpack[SendNames]) -> Delivery:
        """Where the record is, once the broker has it. Records that are sent together go together."""
        loop = asyncio.get_running_loop()
        delivered: asyncio.Future[Delivery] = loop.create_future()

        def report(delivery: Delivery) -> None:
            loop.call_soon_threadsafe(settle, delivered, delivery)

        await self._worker.do(lambda producer: producer.send(topic, value, on_delivery=report, **details))
        delivery = await delivered
        if delivery.error is not None:
            raise delivery.error
        return delivery

    async def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        await self._worker.do(lambda producer: producer.flush(timeout_s))

    async def last_sequence(self, topic: str, partition: int) -> int | None:
        return await self._worker.do(lambda producer: producer.last_sequence(topic, partition))

    @asynccontextmanager
    async def transaction(self, consumer: AsyncConsumer | None = None) -> AsyncIterator[None]:
        """As `Producer.transaction`."""
        core = None if consumer is None else await consumer.core()
        await self._worker.do(lambda producer: producer.begin(core))
        try:
            yield
        except BaseException as error:
            reason = error
            await asyncio.shield(self._worker.do(lambda producer: producer.abort(reason)))
            raise
        await asyncio.shield(self._worker.do(lambda producer: producer.commit(core)))

    async def commit_offsets(self, consumer: AsyncConsumer) -> None:
        core = await consumer.core()
        await self._worker.do(lambda producer: producer.commit_offsets(core))

    async def settle(self, timeout_s: float = FLUSH_TIMEOUT_S) -> bool:
        return await self._worker.do(lambda producer: producer.settle(timeout_s))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except OncestreamError as failure:
            if error is None:
                raise
            error.add_note(f"and the producer could not be closed: {failure}")


class AsyncConsumer(_InThread[Consumer]):
    """`Consumer` for asyncio; it takes the same parameters. `on_assigned` and `on_revoked` run in its thread.

    async with AsyncConsumer("/apps/pump:warning", group="alarms") as consumer:
        async for record in consumer:
            ...
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        *,
        group: str,
        bootstrap_servers: str | None = None,
        **options: Unpack[ConsumerNames],
    ) -> None:
        self._worker = Worker(
            partial(Consumer, topics, group=group, bootstrap_servers=bootstrap_servers, **options)
        )
        self._core: Consumer | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        core = self._core or await self.core()
        while True:
            # Handed out here and not in the thread: a record is never lost with a task that is cancelled.
            record = core.take() if self._worker.is_idle else None
            if record is not None:
                return record
            await self._worker.do(_filling(TURN_S))

    async def poll(self, timeout_s: float = STEP_S) -> list[Record]:
        core = await self.core()
        core.finish()
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            left_s = deadline - asyncio.get_running_loop().time()
            await self._worker.do(_filling(min(TURN_S, max(0.0, left_s))))
            records = core.take_all() if self._worker.is_idle else []
            if records or left_s <= 0:
                return records

    async def commit(self) -> None:
        await self._worker.do(lambda consumer: consumer.commit())

    async def position(self) -> dict[TopicPartition, int]:
        return await self._worker.do(lambda consumer: consumer.position())

    async def committed(self) -> dict[TopicPartition, int | None]:
        return await self._worker.do(lambda consumer: consumer.committed())

    async def assignment(self) -> list[TopicPartition]:
        return await self._worker.do(lambda consumer: consumer.assignment())

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        await self._worker.do(lambda consumer: consumer.seek(topic, partition, offset))

    async def rewind(self) -> None:
        await self._worker.do(lambda consumer: consumer.rewind())

    async def pause(self, topic: str, partition: int) -> None:
        await self._worker.do(lambda consumer: consumer.pause(topic, partition))

    async def resume(self, topic: str, partition: int) -> None:
        await self._worker.do(lambda consumer: consumer.resume(topic, partition))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As `Consumer.__exit__`: what an exception leaves behind is not finished."""
        if error is None:
            await self._worker.do(lambda consumer: consumer.finish())
        await self.close()

    async def core(self) -> Consumer:
        """The consumer itself, at a moment when its thread does nothing with it."""
        self._core = await self._worker.do(lambda consumer: consumer)
        return self._core


def _filling(timeout_s: float) -> Callable[[Consumer], None]:
    return lambda consumer: consumer.fill(timeout_s)


def _serve(producer: Producer) -> bool:
    """Lets reports of deliveries come; again soon, while there are more."""
    producer.poll(0)
    return producer.waiting > 0
