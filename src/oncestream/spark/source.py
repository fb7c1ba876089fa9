"""`format("oncestream")`: topics as a Spark stream or table, with the columns and options of Spark's `kafka`."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from oncestream.client.contact import first_contact
from oncestream.errors import NoSparkWriter
from oncestream.spark.batch_reader import BatchReader
from oncestream.spark.plain_errors import plain_errors
from oncestream.spark.rows import row_schema
from oncestream.spark.source_options import batch_options, headers_wanted, stream_options
from oncestream.spark.stream_reader import StreamReader
from oncestream.streams.names import parse_topic


class OncestreamSource(DataSource):
    """Reads committed records of topics. Spark finds it by the package `pyspark_oncestream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.settings = {name.lower(): str(value) for name, value in options.items()}

    @classmethod
    def name(cls) -> str:
        return "oncestream"

    def schema(self) -> StructType:
        return row_schema(headers=headers_wanted(self.settings))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark passes it by name
        with plain_errors():
            options = batch_options(self.settings)
            first_contact(options.client).close()
            return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        with plain_errors():
            options = stream_options(self.settings)
            first_contact(options.client).close()
            return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        with plain_errors():
            raise NoSparkWriter(line=self._line_to_type(', run="NAME-OF-THIS-LOAD"'))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        with plain_errors():
            raise NoSparkWriter(line=self._line_to_type(""))

    def _line_to_type(self, rest: str) -> str:
        topic = self.settings.get("topic") or self.settings.get("path") or ""
        to = f'topic="{topic}", ' if topic else ""
        name = parse_topic(topic).replace(".", "-") if topic else "NAME"
        servers = self.settings.get("kafka.bootstrap.servers")
        at = f', bootstrap_servers="{servers}"' if servers else ""
        return f'once.write(df, {to}pipeline="{name}"{rest}{at})'
