"""Exactly-once event streams for Python and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncestream.broker.embedded import Broker as Broker
    from oncestream.errors import OncestreamError as OncestreamError
    from oncestream.messaging.asynchronous import AsyncConsumer as AsyncConsumer
    from oncestream.messaging.asynchronous import AsyncProducer as AsyncProducer
    from oncestream.messaging.consumer import Consumer as Consumer
    from oncestream.messaging.options import ConsumerOptions as ConsumerOptions
    from oncestream.messaging.options import ProducerOptions as ProducerOptions
    from oncestream.messaging.producer import Producer as Producer
    from oncestream.messaging.record import Record as Record
    from oncestream.spark.each import each as each
    from oncestream.spark.options import PipelineOptions as PipelineOptions
    from oncestream.spark.pipeline import pipeline as pipeline
    from oncestream.spark.session import session as session
    from oncestream.spark.write import write as write
    from oncestream.streams.stream import Stream as Stream

__version__ = "0.1.0"
__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "Broker",
    "Consumer",
    "ConsumerOptions",
    "OncestreamError",
    "PipelineOptions",
    "Producer",
    "ProducerOptions",
    "Record",
    "Stream",
    "__version__",
    "each",
    "pipeline",
    "session",
    "write",
]

_HOMES = {
    "AsyncConsumer": "oncestream.messaging.asynchronous",
    "AsyncProducer": "oncestream.messaging.asynchronous",
    "Broker": "oncestream.broker.embedded",
    "Consumer": "oncestream.messaging.consumer",
    "ConsumerOptions": "oncestream.messaging.options",
    "OncestreamError": "oncestream.errors",
    "PipelineOptions": "oncestream.spark.options",
    "Producer": "oncestream.messaging.producer",
    "ProducerOptions": "oncestream.messaging.options",
    "Record": "oncestream.messaging.record",
    "Stream": "oncestream.streams.stream",
    "each": "oncestream.spark.each",
    "pipeline": "oncestream.spark.pipeline",
    "session": "oncestream.spark.session",
    "write": "oncestream.spark.write",
}
_SPARK_NEEDS = ("pyspark", "pyarrow", "pandas", "numpy", "py4j")


def __getattr__(name: str) -> object:
    """Public names are imported when they are first used: `import oncestream` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'oncestream' has no attribute {name!r}")
    from importlib import import_module

    import_module(
        "oncestream.machine"
    )  # raises SystemUnsupported, before another module fails in its own way
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in _SPARK_NEEDS:
            raise
        from oncestream.errors import SparkMissing

        raise SparkMissing(name=name, package=error.name) from error


def __dir__() -> list[str]:
    return __all__
