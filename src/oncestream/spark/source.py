"""`format("oncestream")`: topics as a Spark stream or table, with the columns and options of Spark's `kafka`."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from oncestream.spark.batch_reader import BatchReader
from oncestream.spark.rows import row_schema
from oncestream.spark.source_options import batch_options, headers_wanted, stream_options
from oncestream.spark.stream_reader import StreamReader


class OncestreamSource(DataSource):
    """Reads committed records of topics; register it with `spark.dataSource.register(OncestreamSource)`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.settings = {name.lower(): str(value) for name, value in options.items()}

    @classmethod
    def name(cls) -> str:
        return "oncestream"

    def schema(self) -> StructType:
        return row_schema(headers=headers_wanted(self.settings))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark passes it by name
        return BatchReader(batch_options(self.settings))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return StreamReader(stream_options(self.settings))
