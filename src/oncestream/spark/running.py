"""A pipeline that runs: Spark's own handle of its query, whose errors are those of errors.py."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.query import StreamingQuery

from oncestream.errors import OncestreamError
from oncestream.spark.failure import java_end, told

if TYPE_CHECKING:
    from oncestream.spark.query import Query

LOG: Final = logging.getLogger("oncestream.pipeline")


class Running(StreamingQuery):
    """What `once.write` and `Pipeline.start` return."""

    def __init__(self, streaming: StreamingQuery, query: Query) -> None:
        super().__init__(streaming._jsq)
        self._query = query

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        """Waits for the end, at most `timeout` seconds; raises what ended it."""
        try:
            return super().awaitTermination(timeout)
        except Exception as error:
            raise self._told(error) from None

    def wait(self) -> None:
        """Waits for the end and leaves nothing open; raises what ended it."""
        # In a thread of its own: a signal that reaches a thread which waits for Java breaks the way to Java.
        waiting = ThreadPoolExecutor(1, thread_name_prefix=self._query.pipeline)
        try:
            waiting.submit(self.awaitTermination).result()
        finally:
            self.stop()
            waiting.shutdown()

    def stop(self) -> None:
        """Ends the query; what its open transaction holds is aborted."""
        try:
            super().stop()
        except Exception as error:
            if java_end(error) is None:
                raise self._told(error) from None
            LOG.info("pipeline=%s Spark is gone already", self._query.pipeline)
        finally:
            self._query.close()

    def _told(self, error: Exception) -> OncestreamError:
        """A batch that failed tells more than Spark, unless Java is gone: then every batch fails."""
        own = self._query.error if java_end(error) is None else None
        return told(own or error, self._query.pipeline)
