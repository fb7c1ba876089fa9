"""AsyncProducer and AsyncConsumer: the same, and the event loop never waits."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

import pytest

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import DeliveryFailed, UnknownTopic
from oncestream.messaging.asynchronous import AsyncConsumer, AsyncProducer
from oncestream.messaging.record import Delivery
from tests.client.kit import new_name
from tests.messaging.kit import DEADLINE_S, new_topic, read_all, values


def test_send_tells_where_the_record_is_and_async_for_reads_it(bootstrap: str) -> None:
    topic = new_topic(bootstrap)

    async def program() -> None:
        async with AsyncProducer(bootstrap) as producer:
            assert await producer.send(topic, "0", key="k") == Delivery(topic, 0, 0)
            rest = await asyncio.gather(*(producer.send(topic, str(number)) for number in range(1, 1_000)))
            assert [delivery.offset for delivery in rest] == list(range(1, 1_000))
        async with AsyncConsumer(topic, group=new_name("group"), bootstrap_servers=bootstrap) as consumer:
            read = [await anext(consumer) for _ in range(1_000)]
        assert values(read) == [str(number) for number in range(1_000)]

    _run(program())


def test_the_end_of_the_block_commits_what_no_exception_left_behind(embedded: Any) -> None:
    topic, group = new_topic(embedded.bootstrap_servers), new_name("group")

    async def first_offset(failure: Exception | None) -> int:
        async with AsyncConsumer(
            topic, group=group, bootstrap_servers=embedded.bootstrap_servers
        ) as consumer:
            async for record in consumer:
                if failure is not None:
                    failure.add_note(str(record.offset))
                    raise failure
                return record.offset
        raise AssertionError

    async def program() -> None:
        async with AsyncProducer(embedded.bootstrap_servers) as producer:
            await asyncio.gather(*(producer.send(topic, str(number)) for number in range(3)))
        with pytest.raises(KeyError):
            await first_offset(KeyError("mine"))
        assert [await first_offset(None) for _ in range(2)] == [0, 1]

    _run(program())


def test_a_failed_delivery_is_raised_where_it_is_awaited(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers, cleanup_policy="compact")

    async def program() -> None:
        async with AsyncProducer(embedded.bootstrap_servers) as producer:
            with pytest.raises(DeliveryFailed, match=topic):
                await producer.send(topic, "no key")
            await producer.send(topic, "v", key="k")

    _run(program())


def test_a_transaction_moves_records_and_positions_together(bootstrap: str) -> None:
    source, sink, group = new_topic(bootstrap), new_topic(bootstrap), new_name("group")

    async def program() -> None:
        async with AsyncProducer(bootstrap) as filler:
            await asyncio.gather(*(filler.send(source, str(number)) for number in range(30)))
        async with (
            AsyncProducer(bootstrap, transactional_id=new_name("txn")) as producer,
            AsyncConsumer(source, group=group, bootstrap_servers=bootstrap, commit="manual") as consumer,
        ):
            with pytest.raises(KeyError):  # noqa: PT012
                async with producer.transaction(consumer):
                    await producer.send(sink, (await anext(consumer)).value)
                    raise KeyError("mine")
            async with producer.transaction():
                for _ in range(10):
                    await producer.send(sink, (await anext(consumer)).value)
                await producer.commit_offsets(consumer)
            moved = 10
            while moved < 30:
                async with producer.transaction(consumer):
                    records = await consumer.poll(1.0)
                    await asyncio.gather(*(producer.send(sink, record.value) for record in records))
                moved += len(records)
            assert await consumer.committed() == {TopicPartition(source, 0): 30}

    _run(program())
    assert values(read_all(bootstrap, sink, 30)) == [str(number) for number in range(30)]


def test_a_named_producer_numbers_its_records(embedded: Any) -> None:
    topic, name = new_topic(embedded.bootstrap_servers), new_name("producer")

    async def program() -> None:
        for number in (3, 4):
            async with AsyncProducer(embedded.bootstrap_servers, name=name) as producer:
                assert await producer.last_sequence(topic, 0) == (None if number == 3 else 3)
                await producer.send(topic, "v", sequence=number)

    _run(program())


def test_the_event_loop_goes_on_while_nothing_comes(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)

    async def program() -> None:
        async with AsyncConsumer(
            topic, group=new_name("g"), bootstrap_servers=embedded.bootstrap_servers
        ) as consumer:
            waiting = asyncio.ensure_future(anext(consumer))
            for turn in itertools.count():
                await asyncio.sleep(0)
                if turn == 10_000:
                    break
            assert not waiting.done()
            async with AsyncProducer(embedded.bootstrap_servers) as producer:
                await producer.send(topic, "at last")
            assert (await waiting).value == b"at last"

    _run(program())


def test_a_record_is_not_lost_with_a_cancelled_task(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)

    async def program() -> None:
        async with (
            AsyncConsumer(
                topic, group=new_name("g"), bootstrap_servers=embedded.bootstrap_servers
            ) as consumer,
            AsyncProducer(embedded.bootstrap_servers) as producer,
        ):
            seen: list[bytes] = []
            sending = asyncio.ensure_future(
                asyncio.gather(*(producer.send(topic, str(number)) for number in range(50)))
            )
            while len(seen) < 50:
                try:
                    seen.append((await asyncio.wait_for(anext(consumer), 0.001)).value)
                except TimeoutError:
                    continue
            await sending
            assert seen == [b"%d" % number for number in range(50)]

    _run(program())


def test_seek_pause_resume_rewind_and_cursors(embedded: Any) -> None:
    topic, group = new_topic(embedded.bootstrap_servers), new_name("g")

    async def program() -> None:
        async with AsyncProducer(embedded.bootstrap_servers) as producer:
            await asyncio.gather(*(producer.send(topic, str(number)) for number in range(10)))
            await producer.flush()
        async with AsyncConsumer(
            topic, group=group, bootstrap_servers=embedded.bootstrap_servers, commit="manual"
        ) as consumer:
            assert (await anext(consumer)).offset == 0
            await consumer.seek(topic, 0, 7)
            assert (await anext(consumer)).offset == 7
            await consumer.commit()
            await consumer.pause(topic, 0)
            assert await consumer.poll(0.3) == []
            await consumer.resume(topic, 0)
            assert (await anext(consumer)).offset == 8
            await consumer.rewind()
            assert (await consumer.poll(30))[0].offset == 8
            assert (await consumer.committed()) == {TopicPartition(topic, 0): 8}
            assert (await consumer.position())[TopicPartition(topic, 0)] > 8
            assert await consumer.assignment() == [TopicPartition(topic, 0)]

    _run(program())


def test_errors_of_the_start_come_out(embedded: Any) -> None:
    async def program() -> None:
        with pytest.raises(UnknownTopic):
            async with AsyncConsumer(
                "no-such-topic", group="g", bootstrap_servers=embedded.bootstrap_servers
            ):
                pytest.fail("there is no such topic")

    _run(program())


def _run(program: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(program, DEADLINE_S)

    asyncio.run(limited())
