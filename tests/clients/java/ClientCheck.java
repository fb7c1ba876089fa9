import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client against the cluster of the first argument. Every public method is a behaviour; for each named in
 * the other arguments one line is printed: its name, a tab, and "ok" or what went wrong.
 */
public class ClientCheck implements AutoCloseable {
    static final List<String> COMPRESSIONS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final long START_MS = System.currentTimeMillis() - 600_000;

    private final String bootstrap;
    private final Admin admin;

    ClientCheck(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] args) throws Exception {
        try (ClientCheck check = new ClientCheck(args[0])) {
            for (String name : Arrays.copyOfRange(args, 1, args.length)) {
                System.out.println(name + "\t" + check.run(name));
            }
        }
    }

    private String run(String name) throws ReflectiveOperationException {
        Method behaviour = ClientCheck.class.getMethod(name);
        try {
            behaviour.invoke(this);
            return "ok";
        } catch (InvocationTargetException wrapped) {
            StackTraceElement[] trace = wrapped.getCause().getStackTrace();
            String where = Arrays.stream(trace).filter(frame -> frame.getClassName().startsWith("ClientCheck"))
                .map(frame -> "line " + frame.getLineNumber()).collect(Collectors.joining(" < "));
            return (wrapped.getCause() + " at " + where).replaceAll("\\s+", " ");
        }
    }

    public void records_come_back_in_every_compression() throws Exception {
        String topic = newTopic(1, Map.of());
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (String compression : COMPRESSIONS) {
            List<ProducerRecord<byte[], byte[]>> sample = List.of(
                record(topic, 0, null, null, "plain"),
                record(topic, 0, START_MS, "key", "value", header("a", "1"), header("a", "2"), header("null", null)),
                record(topic, 0, START_MS + 1, "tombstone", null),
                record(topic, 0, START_MS + 2, "", ""));
            send(Map.of("compression.type", compression), sample);
            sent.addAll(sample);
        }
        List<ConsumerRecord<byte[], byte[]>> received = read(topic, 0, 0, sent.size());
        for (int i = 0; i < sent.size(); i++) {
            equal(text(sent.get(i).key()), text(received.get(i).key()));
            equal(text(sent.get(i).value()), text(received.get(i).value()));
            equal(sent.get(i).headers(), received.get(i).headers());
            equal((long) i, received.get(i).offset());
            if (sent.get(i).timestamp() != null) {
                equal(sent.get(i).timestamp(), received.get(i).timestamp());
            }
        }
    }

    public void a_record_of_900_kb_comes_back_in_every_compression() throws Exception {
        String topic = newTopic(1, Map.of());
        byte[] value = new byte[900_000];
        new Random(1).nextBytes(value);
        for (String compression : COMPRESSIONS) {
            send(Map.of("compression.type", compression), List.of(new ProducerRecord<>(topic, 0, null, value)));
        }
        for (ConsumerRecord<byte[], byte[]> record : read(topic, 0, 0, COMPRESSIONS.size())) {
            equal(true, Arrays.equals(value, record.value()));
        }
    }

    public void every_kind_of_acks_delivers() throws Exception {
        String topic = newTopic(1, Map.of());
        List<String> all = List.of("0", "1", "all");
        for (int i = 0; i < all.size(); i++) {
            String acks = all.get(i);
            send(Map.of("acks", acks, "enable.idempotence", "false"), List.of(record(topic, 0, null, null, acks)));
            // Nobody is told when a record without acks arrives: the next producer may be quicker.
            equal(List.of(acks), texts(read(topic, 0, i, 1)));
        }
    }

    public void an_idempotent_producer_keeps_order_with_five_requests_in_flight() throws Exception {
        String topic = newTopic(1, Map.of());
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (int i = 0; i < 20_000; i++) {
            sent.add(record(topic, 0, null, null, Integer.toString(i)));
        }
        List<RecordMetadata> answered = send(Map.of("batch.size", "2000", "linger.ms", "0"), sent);
        for (int i = 0; i < sent.size(); i++) {
            equal((long) i, answered.get(i).offset());
        }
        equal(sent.stream().map(record -> text(record.value())).collect(Collectors.toList()),
            texts(read(topic, 0, 0, sent.size())));
    }

    public void a_record_above_the_limit_is_refused() throws Exception {
        String topic = newTopic(1, Map.of("max.message.bytes", "1000"));
        refused(RecordTooLargeException.class, () ->
            send(Map.of(), List.of(new ProducerRecord<>(topic, 0, null, new byte[2000]))));
    }

    public void a_consumer_seeks_to_the_middle_the_start_and_the_end() throws Exception {
        String topic = newTopic(1, Map.of());
        send(Map.of(), numbered(topic, 0, 30));
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 17);
            equal(17L, poll(consumer, 13).get(0).offset());
            consumer.seekToBeginning(List.of(partition));
            equal(0L, poll(consumer, 30).get(0).offset());
            consumer.seekToEnd(List.of(partition));
            equal(30L, consumer.position(partition));
        }
    }

    public void a_consumer_finds_offsets_by_time_the_start_and_the_end() throws Exception {
        String topic = newTopic(2, Map.of());
        send(Map.of(), numbered(topic, 1, 10));
        TopicPartition empty = new TopicPartition(topic, 0);
        TopicPartition full = new TopicPartition(topic, 1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            equal(Map.of(empty, 0L, full, 0L), consumer.beginningOffsets(List.of(empty, full)));
            equal(Map.of(empty, 0L, full, 10L), consumer.endOffsets(List.of(empty, full)));
            Map<TopicPartition, OffsetAndTimestamp> found =
                consumer.offsetsForTimes(Map.of(empty, START_MS, full, START_MS + 35));
            equal(null, found.get(empty));
            equal(4L, found.get(full).offset());
            equal(START_MS + 40, found.get(full).timestamp());
            equal(null, consumer.offsetsForTimes(Map.of(full, START_MS + 1000)).get(full));
            equal(2, consumer.partitionsFor(topic).size());
            equal(true, consumer.listTopics().containsKey(topic));
        }
    }

    public void the_admin_creates_describes_enlarges_and_deletes_a_topic() throws Exception {
        String topic = newTopic(2, Map.of("retention.ms", "12345"));
        TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        equal(2, described.partitions().size());
        equal(1, described.partitions().get(0).replicas().size());
        equal(topic, admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId())))
            .allTopicIds().get().get(described.topicId()).name());
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
        until(() -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 4);
        admin.deleteTopics(List.of(topic)).all().get();
        until(() -> !admin.listTopics().names().get().contains(topic));
    }

    public void the_admin_alters_configs_step_by_step() throws Exception {
        String topic = newTopic(1, Map.of("retention.ms", "12345"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE),
            new AlterConfigOp(new ConfigEntry("segment.bytes", "2000000"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all().get();
        until(() -> config(resource, "segment.bytes").value().equals("2000000"));
        equal("604800000", config(resource, "retention.ms").value());
        equal(true, config(resource, "retention.ms").isDefault());
        equal("delete,compact", config(resource, "cleanup.policy").value());
        equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config(resource, "segment.bytes").source());
        refused(InvalidConfigurationException.class, () -> admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET)))).all().get());
    }

    public void the_admin_deletes_records_and_lists_offsets() throws Exception {
        String topic = newTopic(1, Map.of());
        send(Map.of(), numbered(topic, 0, 10));
        TopicPartition partition = new TopicPartition(topic, 0);
        equal(4L, admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4)))
            .lowWatermarks().get(partition).get().lowWatermark());
        equal(4L, offset(partition, OffsetSpec.earliest()));
        equal(10L, offset(partition, OffsetSpec.latest()));
        equal(9L, offset(partition, OffsetSpec.maxTimestamp()));
        equal(6L, offset(partition, OffsetSpec.forTimestamp(START_MS + 55)));
        refused(OffsetOutOfRangeException.class, () ->
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(11))).all().get());
    }

    public void the_admin_describes_cluster_log_folders_and_producers() throws Exception {
        String topic = newTopic(1, Map.of());
        send(Map.of(), numbered(topic, 0, 10));
        equal(1, admin.describeCluster().nodes().get().size());
        int node = admin.describeCluster().controller().get().id();
        equal(true, admin.describeCluster().clusterId().get().length() > 0);
        TopicPartition partition = new TopicPartition(topic, 0);
        equal(true, admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).values().stream()
            .anyMatch(folder -> folder.replicaInfos().containsKey(partition)
                && folder.replicaInfos().get(partition).size() > 0));
        List<ProducerState> producers =
            admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
        equal(1, producers.size());
        equal(9, producers.get(0).lastSequence());
        equal(0, producers.get(0).producerEpoch());
        equal(false, producers.get(0).currentTransactionStartOffset().isPresent());
    }

    public void the_admin_is_told_why_a_topic_cannot_be() throws Exception {
        String topic = newTopic(2, Map.of());
        String unused = "java-" + UUID.randomUUID();
        refused(TopicExistsException.class, () -> create(new NewTopic(topic, 1, (short) 1)));
        refused(InvalidPartitionsException.class, () -> create(new NewTopic(unused, 0, (short) 1)));
        refused(InvalidReplicationFactorException.class, () -> create(new NewTopic(unused, 1, (short) 3)));
        refused(InvalidTopicException.class, () -> create(new NewTopic("a b", 1, (short) 1)));
        refused(InvalidConfigurationException.class, () ->
            create(new NewTopic(unused, 1, (short) 1).configs(Map.of("segment.bytes", "few"))));
        refused(InvalidPartitionsException.class, () ->
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all().get());
        refused(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(unused)).all().get());
        refused(UnknownTopicOrPartitionException.class, () ->
            admin.describeTopics(List.of(unused)).allTopicNames().get());
    }

    public void a_group_reads_commits_and_goes_on() throws Exception {
        String topic = newTopic(2, Map.of());
        Map<String, String> settings = Map.of("group.id", "group-of-" + topic);
        for (int round = 0; round < 2; round++) {
            send(Map.of(), numbered(topic, 0, 5));
            send(Map.of(), numbered(topic, 1, 5));
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
                consumer.subscribe(List.of(topic));
                long first = 5L * round;
                equal(true, poll(consumer, 10).stream().allMatch(record -> record.offset() >= first));
                consumer.commitSync();
            }
        }
    }

    @Override
    public void close() {
        admin.close();
    }

    interface Step {
        void run() throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    private String newTopic(int partitions, Map<String, String> configs) throws Exception {
        String topic = "java-" + UUID.randomUUID();
        create(new NewTopic(topic, partitions, (short) 1).configs(configs));
        until(() -> admin.listTopics().names().get().contains(topic));
        return topic;
    }

    private void create(NewTopic topic) throws Exception {
        admin.createTopics(Set.of(topic)).all().get();
    }

    private ConfigEntry config(ConfigResource resource, String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
    }

    private long offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    private List<RecordMetadata> send(Map<String, String> settings, Collection<ProducerRecord<byte[], byte[]>> records)
            throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("max.request.size", "4000000");
        properties.putAll(settings);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<java.util.concurrent.Future<RecordMetadata>> sent =
                records.stream().map(producer::send).collect(Collectors.toList());
            List<RecordMetadata> answered = new ArrayList<>();
            for (java.util.concurrent.Future<RecordMetadata> future : sent) {
                answered.add(future.get());
            }
            return answered;
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.putAll(settings);
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private List<ConsumerRecord<byte[], byte[]>> read(String topic, int partition, long offset, int count) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, partition)));
            consumer.seek(new TopicPartition(topic, partition), offset);
            return poll(consumer, count);
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> received = new ArrayList<>();
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (received.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(200)).forEach(received::add);
        }
        equal(count, received.size());
        return received;
    }

    private static List<ProducerRecord<byte[], byte[]>> numbered(String topic, int partition, int count) {
        return IntStream.range(0, count)
            .mapToObj(i -> record(topic, partition, START_MS + 10 * i, null, Integer.toString(i)))
            .collect(Collectors.toList());
    }

    private static ProducerRecord<byte[], byte[]> record(
            String topic, int partition, Long timestamp, String key, String value, Header... headers) {
        return new ProducerRecord<>(topic, partition, timestamp, bytes(key), bytes(value), Arrays.asList(headers));
    }

    private static Header header(String name, String value) {
        return new RecordHeader(name, bytes(value));
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private static List<String> texts(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(record -> text(record.value())).collect(Collectors.toList());
    }

    private static void until(Condition condition) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (!condition.holds()) {
            equal(true, System.nanoTime() < deadline);
            Thread.sleep(20);
        }
    }

    private static void refused(Class<? extends Exception> expected, Step step) throws Exception {
        try {
            step.run();
        } catch (ExecutionException error) {
            equal(expected, error.getCause().getClass());
            return;
        }
        throw new AssertionError("not refused, expected " + expected.getSimpleName());
    }

    private static void equal(Object expected, Object actual) {
        if (expected == null ? actual != null : !expected.equals(actual)) {
            throw new AssertionError("expected " + expected + " but was " + actual);
        }
    }
}
