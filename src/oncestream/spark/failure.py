"""The one place that turns whatever came out of Spark, Java or a user's function into an error of errors.py."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException

from oncestream.errors import (
    BadPipeline,
    BadPipelineFile,
    OncestreamError,
    PipelineFailed,
    PipelineFenced,
    SourceDataLost,
    SparkDied,
    SparkFailed,
    TooManyDeadLetters,
    WorkersLackPackage,
)
from oncestream.spark.error_text import error_in
from oncestream.spark.user_code import place_in, place_of, with_place

REASON_CHARS_MAX: Final = 500
JAVA_END_S: Final = 5.0  # from the loss of the connection to the end of the process
OUT_OF_MEMORY_CODE: Final = 52  # Spark's own exit code
OUT_OF_MEMORY: Final = re.compile(r"java\.lang\.OutOfMemoryError|Java heap space|GC overhead limit exceeded")
TRACEBACK: Final = "Traceback (most recent call last):"
OTHER_DRIVER: Final = "CONCURRENT_STREAM_LOG_UPDATE"  # two drivers on one checkpoint
LACKS_PACKAGE: Final = re.compile(
    r"No module named '(?:pyspark_)?oncestream|PYTHON_VERSION_MISMATCH|DATA_SOURCE_NOT_FOUND\].* oncestream\b"
)
CAUSED_BY: Final = "\nCaused by: "
WORKER_DIED: Final = "Python worker exited unexpectedly"
# What Spark says around the reason.
WRAPPINGS: Final = (
    re.compile(r"\AAn error occurred while calling [\w.]+\s*: "),
    re.compile(r"(?s)\AJob aborted due to stage failure: .*?most recent failure: Lost task [^\n]*?\): "),
    re.compile(r"(?s)\A\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: "),
    re.compile(r"\A(?:[a-z]\w*\.)+(?=[A-Z])"),  # the package of a Java class
    re.compile(r"\A(?:SparkException|AnalysisException|Py4JJavaError): "),
)
COMPLAINT: Final = re.compile(r"\b(?:Error|error|ERROR|Exception)\b")
SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*")
FINAL: Final = (BadPipeline, SourceDataLost, TooManyDeadLetters)
LOG: Final = logging.getLogger("oncestream.pipeline")


def told(error: BaseException, pipeline: str) -> OncestreamError:
    """What ended the pipeline; the log has the whole story."""
    found = _told(error, pipeline)
    if found is not error:
        LOG.info("pipeline=%s ended: %s", pipeline, found.cause_text, exc_info=error)
    return found


def file_failed(file: str, error: BaseException) -> OncestreamError:
    """What to say where a file with pipelines cannot even be read."""
    LOG.info("%s failed", file, exc_info=error)
    if isinstance(error, SyntaxError):
        return BadPipelineFile(
            file=file, reason=f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
        )
    return BadPipelineFile(file=file, reason=with_place(_reason(error), place_of(error)))


def start_failed(error: Exception, said: list[str]) -> OncestreamError:
    """What to say where Spark did not come up; `said`: by its JVM."""
    if isinstance(error, OncestreamError):
        return error
    LOG.info("Spark did not start; it said: %s", "\n".join(said), exc_info=error)
    complaints = [line for line in said if COMPLAINT.search(line)]
    end = java_end(error)
    reason = complaints[0].strip() if complaints else _reason(error)
    return SparkFailed(reason=reason if end is None else f"{reason} ({end})")


def function_failed(error: Exception, pipeline: str) -> OncestreamError:
    """What to say where the pipeline's function raised while Spark asked it for a plan."""
    found = _told(error, pipeline)
    if not isinstance(found, PipelineFailed | BadPipeline) or found is error:
        return found
    LOG.info("pipeline=%s: its function failed", pipeline, exc_info=error)
    reason = with_place(f"its function failed: {_reason(error)}", place_of(error))
    return BadPipeline(pipeline=pipeline, reason=reason)


def reason_of(error: BaseException) -> str:
    """Why, in one line: of an error in a worker its own message, and where in the user's code it was raised."""
    if isinstance(error, OncestreamError):
        return error.cause_text
    found = error_in(text_of(error))
    return _reason(error) if found is None else found.cause_text


def final_error(error: BaseException, pipeline: str) -> OncestreamError | None:
    """The error to end a pipeline with at once, where running a batch again would not help."""
    if (end := java_end(error)) is not None:
        return SparkDied(pipeline=pipeline, reason=end)
    found = error if isinstance(error, OncestreamError) else error_in(text_of(error))
    return found if isinstance(found, FINAL) else None


def text_of(error: BaseException) -> str:
    """All that the error says. Spark's own `str` asks the JVM, which may be gone, for its stack."""
    said = getattr(error, "_desc", None)
    if isinstance(said, str):
        return said
    try:
        return str(error)
    except Exception:
        return type(error).__name__


def java_end(error: BaseException | None = None) -> str | None:
    """How Spark's JVM ended; None while it lives, or where this process did not start it."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    lost = isinstance(error, ConnectionError) or (
        isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    )
    try:
        code = process.wait(JAVA_END_S) if lost else process.poll()
    except subprocess.TimeoutExpired:
        return None
    if code is None:
        return None
    if code == OUT_OF_MEMORY_CODE:
        return "it was out of memory"
    return f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"its exit code is {code}"


def _told(error: BaseException, pipeline: str) -> OncestreamError:
    if (end := java_end(error)) is not None:
        return SparkDied(pipeline=pipeline, reason=end)
    if isinstance(error, OncestreamError):
        return error
    text = text_of(error)
    if (found := error_in(text)) is not None:
        return found
    if OUT_OF_MEMORY.search(text):
        return SparkDied(pipeline=pipeline, reason="it was out of memory")
    if OTHER_DRIVER in text:
        return PipelineFenced(pipeline=pipeline, evidence="it writes to the same checkpoint")
    if LACKS_PACKAGE.search(text):
        return WorkersLackPackage(reason=_reason(error), python=sys.executable)
    if isinstance(error, AnalysisException):
        return BadPipeline(pipeline=pipeline, reason=_reason(error))
    return PipelineFailed(pipeline=pipeline, reason=_reason(error))


def _reason(error: BaseException) -> str:
    text = text_of(error)
    _, is_python, trace = text.rpartition(TRACEBACK)
    if is_python:
        lines = [line for line in trace.splitlines() if line.strip() and not line[0].isspace()]
        return with_place(_first(lines, error), place_in(trace))
    if WORKER_DIED in text:
        return "a Python worker died: it was killed, out of memory, or ended by a function"
    if not isinstance(error, PySparkException | Py4JError):
        text = f"{type(error).__name__}: {text}"
    for wrapping in WRAPPINGS:
        text = wrapping.sub("", text.rpartition(CAUSED_BY)[2].strip())
    return _first([line for line in text.splitlines() if line.strip()], error)


def _first(lines: list[str], error: BaseException) -> str:
    said = SQL_STATE.sub("", lines[0]).strip(" ;") if lines else ""
    return (said or type(error).__name__)[:REASON_CHARS_MAX]
