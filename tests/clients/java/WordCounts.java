import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts the words of topic "lines" into topic "counts", exactly once, through a repartition topic and a store with a
 * changelog. Every count is written, none is held back in a cache. Arguments: bootstrap servers, state folder.
 */
public class WordCounts {
    public static void main(String[] args) {
        Properties config = new Properties();
        config.put("application.id", "word-counts");
        config.put("bootstrap.servers", args[0]);
        config.put("state.dir", args[1]);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        config.put("num.stream.threads", "2");
        config.put("commit.interval.ms", "50");
        config.put("statestore.cache.max.bytes", "0");
        config.put("consumer.auto.offset.reset", "earliest");
        config.put("consumer.session.timeout.ms", "2000");
        config.put("consumer.heartbeat.interval.ms", "300");
        config.put("consumer.max.poll.records", "200");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .selectKey((key, word) -> word)
            .groupByKey(Grouped.as("words"))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
