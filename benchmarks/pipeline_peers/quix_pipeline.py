"""The job on Quix Streams, exactly once, commits every 0.1 s: ... BOOTSTRAP SOURCE SINK NAME."""

from __future__ import annotations

import sys
import tempfile

from quixstreams import Application  # type: ignore[import-not-found]


def main() -> None:
    bootstrap, source, sink, name = sys.argv[1:]
    application = Application(
        broker_address=bootstrap,
        consumer_group=name,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.1,
        state_dir=tempfile.mkdtemp(prefix=name),
        auto_create_topics=False,
        loglevel="WARNING",
    )
    source_topic = application.topic(source, value_deserializer="bytes", key_deserializer="bytes")
    sink_topic = application.topic(sink, value_serializer="bytes", key_serializer="bytes")
    frame = application.dataframe(source_topic)
    frame.apply(bytes.upper).to_topic(sink_topic)
    application.run()


if __name__ == "__main__":
    main()
