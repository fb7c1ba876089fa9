import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Groups and transactions of the Java client against the cluster of the first argument. Every public method is a
 * behaviour; for each named in the other arguments one line is printed: its name, a tab, and "ok" or what went wrong.
 * They run side by side, for most of their time is spent waiting for heartbeats.
 */
public class ExactlyOnceCheck implements AutoCloseable {
    static final int PARTITIONS = 4;
    static final int SIDE_BY_SIDE = 8;
    static final long TIMEOUT_MS = 60_000;
    static final Map<String, String> CLASSIC = Map.of("heartbeat.interval.ms", "200");
    static final Map<String, String> EAGER =
        with(CLASSIC, Map.of("partition.assignment.strategy", RangeAssignor.class.getName()));
    static final Map<String, String> COOPERATIVE =
        with(CLASSIC, Map.of("partition.assignment.strategy", CooperativeStickyAssignor.class.getName()));
    static final Map<String, String> CONSUMER = Map.of("group.protocol", "consumer");

    private final String bootstrap;
    private final Admin admin;

    ExactlyOnceCheck(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(SIDE_BY_SIDE);
        try (ExactlyOnceCheck check = new ExactlyOnceCheck(args[0])) {
            List<String> names = List.of(args).subList(1, args.length);
            List<Future<String>> outcomes = new ArrayList<>();
            for (String name : names) {
                outcomes.add(pool.submit(() -> check.run(name)));
            }
            for (int i = 0; i < names.size(); i++) {
                System.out.println(names.get(i) + "\t" + outcomes.get(i).get());
            }
        }
        pool.shutdown();
    }

    private String run(String name) throws ReflectiveOperationException {
        try {
            ExactlyOnceCheck.class.getMethod(name).invoke(this);
            return "ok";
        } catch (InvocationTargetException wrapped) {
            StackTraceElement[] trace = wrapped.getCause().getStackTrace();
            String where = Arrays.stream(trace).filter(frame -> frame.getClassName().startsWith("ExactlyOnceCheck"))
                .map(frame -> "line " + frame.getLineNumber()).collect(Collectors.joining(" < "));
            return (wrapped.getCause() + " at " + where).replaceAll("\\s+", " ");
        }
    }

    // -- transactions -------------------------------------------------------------------------

    public void committed_readers_skip_aborts_and_end_behind_the_marker() throws Exception {
        String topic = newTopic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = producer(topic, 60_000)) {
            producer.initTransactions();
            for (String value : List.of("one", "two", "three", "four")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
                if (value.startsWith("t")) producer.abortTransaction(); else producer.commitTransaction();
            }
        }
        try (KafkaConsumer<String, String> reader = consumer(topic, Map.of())) {
            reader.assign(List.of(partition));
            // The last end of a transaction is visible a moment after its answer.
            until(() -> reader.endOffsets(List.of(partition)).get(partition) == 8);
            List<ConsumerRecord<String, String>> seen = new ArrayList<>();
            until(() -> {
                reader.poll(Duration.ofMillis(50)).forEach(seen::add);
                return reader.position(partition) == 8;
            });
            equal(List.of(0L, 6L), seen.stream().map(ConsumerRecord::offset).collect(Collectors.toList()));
        }
    }

    public void committed_readers_end_where_the_oldest_open_transaction_began() throws Exception {
        String topic = newTopic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> first = producer("first-" + topic, 60_000);
                KafkaProducer<String, String> second = producer("second-" + topic, 60_000);
                KafkaConsumer<String, String> committed = consumer(topic, Map.of());
                KafkaConsumer<String, String> all = consumer(topic, Map.of("isolation.level", "read_uncommitted"))) {
            for (KafkaProducer<String, String> producer : List.of(first, second)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "x")).get();
            }
            second.commitTransaction();
            equal(0L, committed.endOffsets(List.of(partition)).get(partition));
            equal(3L, all.endOffsets(List.of(partition)).get(partition));
            first.abortTransaction();
            until(() -> committed.endOffsets(List.of(partition)).get(partition) == 4);
        }
    }

    public void a_transaction_that_takes_too_long_is_aborted() throws Exception {
        String topic = newTopic(1);
        try (KafkaProducer<String, String> producer = producer(topic, 1_000)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "slow")).get();
            until(() -> admin.describeTransactions(List.of(topic)).description(topic).get().state()
                == TransactionState.COMPLETE_ABORT);
            refused(Set.of(ProducerFencedException.class, InvalidTxnStateException.class), producer::commitTransaction);
        }
        equal(List.of(), read(topic));
    }

    public void a_member_of_an_old_generation_cannot_commit_its_offsets() throws Exception {
        zombieCommits(EAGER);
    }

    public void a_member_of_an_old_epoch_cannot_commit_its_offsets() throws Exception {
        zombieCommits(CONSUMER);
    }

    private void zombieCommits(Map<String, String> settings) throws Exception {
        String topic = newTopic(PARTITIONS);
        try (KafkaConsumer<String, String> stays = consumer(topic, settings);
                KafkaProducer<String, String> producer = producer(topic, 60_000)) {
            ConsumerGroupMetadata old;
            try (KafkaConsumer<String, String> leaves = consumer(topic, settings)) {
                leaves.subscribe(List.of(topic));
                pump(List.of(leaves), () -> leaves.assignment().size() == PARTITIONS);
                old = leaves.groupMetadata();
            }
            stays.subscribe(List.of(topic));
            pump(List.of(stays), () -> stays.assignment().size() == PARTITIONS);
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "zombie"));
            Map<TopicPartition, OffsetAndMetadata> offsets =
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(5));
            refused(Set.of(CommitFailedException.class), () -> producer.sendOffsetsToTransaction(offsets, old));
            producer.abortTransaction();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(offsets, stays.groupMetadata());
            producer.commitTransaction();
        }
        equal(5L, admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get()
            .get(new TopicPartition(topic, 0)).offset());
        equal(List.of(), read(topic));
    }

    public void consume_transform_produce_is_exact_in_a_classic_group() throws Exception {
        copyAll(COOPERATIVE);
    }

    public void consume_transform_produce_is_exact_in_a_consumer_group() throws Exception {
        copyAll(CONSUMER);
    }

    /** Two copiers of one group; the second joins and leaves on the way, and some transactions are aborted. */
    private void copyAll(Map<String, String> settings) throws Exception {
        String source = newTopic(PARTITIONS);
        String sink = newTopic(PARTITIONS);
        write(source, 0, 1000);
        try (Copier first = new Copier("first-" + source, source, sink, settings)) {
            until(() -> first.copied > 100);
            Copier second = new Copier("second-" + source, source, sink, settings);
            try (second) {
                until(() -> second.owned == PARTITIONS / 2);
                write(source, 1000, 2000);
                until(() -> second.copied > 0);
            }
            until(() -> first.copied + second.copied >= 2000);
        }
        List<String> seen = read(sink);
        equal(2000, seen.size());
        equal(2000, Set.copyOf(seen).size());
    }

    private void write(String topic, int from, int to) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int i = from; i < to; i++) {
                producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, Integer.toString(i)));
            }
        }
    }

    /** Copies in a thread of its own: a member that joins must not keep another from joining. */
    private class Copier implements AutoCloseable {
        private final String sink;
        private final KafkaProducer<String, String> producer;
        private final KafkaConsumer<String, String> consumer;
        private final FutureTask<Void> work = new FutureTask<>(this::copy, null);
        private volatile boolean stopped = false;
        volatile int copied = 0;
        volatile int owned = 0;

        Copier(String id, String source, String sink, Map<String, String> settings) {
            this.sink = sink;
            producer = producer(id, 60_000);
            producer.initTransactions();
            consumer = consumer(source, settings);
            consumer.subscribe(List.of(source));
            new Thread(work).start();
        }

        private void copy() {
            int transactions = 0;
            while (!stopped) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(50));
                owned = consumer.assignment().size();
                if (!records.isEmpty() && !transaction(records, ++transactions % 4 != 0)) {
                    consumer.committed(consumer.assignment()).forEach((partition, offset) ->
                        consumer.seek(partition, offset == null ? 0 : offset.offset()));
                }
            }
            consumer.close();
            producer.close();
        }

        private boolean transaction(ConsumerRecords<String, String> records, boolean commit) {
            producer.beginTransaction();
            records.forEach(record ->
                producer.send(new ProducerRecord<>(sink, record.partition(), null, record.value())));
            try {
                producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
                if (commit) {
                    producer.commitTransaction();
                    copied += records.count();
                    return true;
                }
            } catch (CommitFailedException stale) {
                // rebalanced meanwhile: what is committed is what counts
            }
            producer.abortTransaction();
            return false;
        }

        @Override
        public void close() throws Exception {
            stopped = true;
            work.get();
        }
    }

    // -- groups -------------------------------------------------------------------------------

    public void a_listener_hears_every_eager_rebalance() throws Exception {
        String topic = newTopic(PARTITIONS);
        Listener heard = new Listener();
        try (KafkaConsumer<String, String> stays = consumer(topic, EAGER)) {
            stays.subscribe(List.of(topic), heard);
            pump(List.of(stays), () -> stays.assignment().size() == 4);
            try (KafkaConsumer<String, String> comes = consumer(topic, EAGER)) {
                comes.subscribe(List.of(topic));
                pump(List.of(stays, comes), () -> stays.assignment().size() == 2 && comes.assignment().size() == 2);
            }
            pump(List.of(stays), () -> stays.assignment().size() == 4);
        }
        equal(List.of("assigned 4", "revoked 4", "assigned 2", "revoked 2", "assigned 4", "revoked 4"), heard.calls);
    }

    public void a_cooperative_member_keeps_what_stays_with_it() throws Exception {
        keeps(COOPERATIVE);
    }

    public void a_member_of_a_consumer_group_keeps_what_stays_with_it() throws Exception {
        keeps(CONSUMER);
    }

    private void keeps(Map<String, String> settings) throws Exception {
        String topic = newTopic(PARTITIONS);
        Listener heard = new Listener();
        try (KafkaConsumer<String, String> stays = consumer(topic, settings)) {
            stays.subscribe(List.of(topic), heard);
            pump(List.of(stays), () -> stays.assignment().size() == 4);
            try (KafkaConsumer<String, String> comes = consumer(topic, settings)) {
                comes.subscribe(List.of(topic));
                pump(List.of(stays, comes), () -> stays.assignment().size() == 2 && comes.assignment().size() == 2);
                equal(List.of("revoked 2"), heard.calls.stream().filter(call -> call.startsWith("revoked"))
                    .collect(Collectors.toList()));
                Set<TopicPartition> together = new java.util.HashSet<>(stays.assignment());
                together.addAll(comes.assignment());
                equal(4, together.size());
            }
            pump(List.of(stays), () -> stays.assignment().size() == 4);
        }
        equal(List.of("assigned 2", "revoked 4"), heard.calls.stream().filter(call -> !call.equals("assigned 0"))
            .skip(2).collect(Collectors.toList()));
    }

    public void a_static_member_comes_back_without_a_rebalance() throws Exception {
        comesBack(EAGER, List.of("assigned 2", "revoked 2"));
    }

    public void a_static_member_of_a_consumer_group_comes_back_without_a_rebalance() throws Exception {
        comesBack(CONSUMER, List.of("assigned 2", "revoked 2"));
    }

    private void comesBack(Map<String, String> settings, List<String> expected) throws Exception {
        String topic = newTopic(PARTITIONS);
        Listener heard = new Listener();
        try (KafkaConsumer<String, String> stays = consumer(topic, with(settings, Map.of("group.instance.id", "a")))) {
            Set<TopicPartition> owned;
            Map<String, String> other = with(settings, Map.of("group.instance.id", "b"));
            try (KafkaConsumer<String, String> leaves = consumer(topic, other)) {
                leaves.subscribe(List.of(topic));
                pump(List.of(leaves), () -> leaves.assignment().size() == 4);
                stays.subscribe(List.of(topic), heard);
                pump(List.of(stays, leaves), () -> stays.assignment().size() == 2 && leaves.assignment().size() == 2);
                owned = leaves.assignment();
            }
            try (KafkaConsumer<String, String> back = consumer(topic, other)) {
                back.subscribe(List.of(topic));
                pump(List.of(stays, back), () -> back.assignment().size() == 2);
                equal(owned, back.assignment());
            }
        }
        equal(expected, heard.calls.stream().filter(call -> !call.equals("assigned 0")).collect(Collectors.toList()));
    }

    public void a_second_member_of_the_same_instance_fences_the_first() throws Exception {
        String topic = newTopic(PARTITIONS);
        Map<String, String> settings = with(EAGER, Map.of("group.instance.id", "one"));
        try (KafkaConsumer<String, String> old = consumer(topic, settings);
                KafkaConsumer<String, String> young = consumer(topic, settings)) {
            old.subscribe(List.of(topic));
            pump(List.of(old), () -> old.assignment().size() == 4);
            young.subscribe(List.of(topic));
            pump(List.of(young), () -> young.assignment().size() == 4);
            refused(Set.of(FencedInstanceIdException.class), () -> until(() -> {
                old.poll(Duration.ofMillis(50));
                return false;
            }));
        }
    }

    public void a_consumer_group_subscribes_by_a_pattern_that_the_broker_evaluates() throws Exception {
        String topic = newTopic(PARTITIONS);
        try (KafkaConsumer<String, String> consumer = consumer(topic, CONSUMER)) {
            consumer.subscribe(new SubscriptionPattern(topic.substring(0, 20) + ".*"));
            pump(List.of(consumer), () -> consumer.assignment().size() == PARTITIONS);
            equal(GroupState.STABLE, admin.describeConsumerGroups(List.of(topic)).all().get().get(topic).groupState());
        }
    }

    public void a_consumer_group_uses_the_assignor_that_its_members_ask_for() throws Exception {
        String topic = newTopic(PARTITIONS);
        Map<String, String> settings = with(CONSUMER, Map.of("group.remote.assignor", "range"));
        try (KafkaConsumer<String, String> first = consumer(topic, settings);
                KafkaConsumer<String, String> second = consumer(topic, settings)) {
            first.subscribe(List.of(topic));
            second.subscribe(List.of(topic));
            pump(List.of(first, second), () -> first.assignment().size() == 2 && second.assignment().size() == 2);
            equal(Set.of("[0, 1]", "[2, 3]"), Set.of(indexes(first), indexes(second)));
            equal("range", admin.describeConsumerGroups(List.of(topic)).all().get().get(topic).partitionAssignor());
        }
    }

    // -- parts --------------------------------------------------------------------------------

    private static class Listener implements ConsumerRebalanceListener {
        final List<String> calls = new ArrayList<>();

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            calls.add("assigned " + partitions.size());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            calls.add("revoked " + partitions.size());
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            calls.add("lost " + partitions.size());
        }
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    interface Step {
        void run() throws Exception;
    }

    @Override
    public void close() {
        admin.close();
    }

    private String newTopic(int partitions) throws Exception {
        String topic = "java-" + UUID.randomUUID();
        admin.createTopics(Set.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        until(() -> admin.listTopics().names().get().contains(topic));
        return topic;
    }

    private KafkaProducer<String, String> producer(String transactionalId, int timeoutMs) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", transactionalId);
        config.put("transaction.timeout.ms", timeoutMs);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String group, Map<String, String> settings) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("isolation.level", "read_committed");
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("max.poll.records", "50");
        config.putAll(settings);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    /** All values of a topic, as a committed reader sees them now. */
    private List<String> read(String topic) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer("unused", Map.of("max.poll.records", "5000"))) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(info -> new TopicPartition(topic, info.partition())).collect(Collectors.toList());
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.seekToBeginning(partitions);
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                consumer.poll(Duration.ofMillis(50)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    private static String indexes(KafkaConsumer<String, String> consumer) {
        return consumer.assignment().stream().map(TopicPartition::partition)
            .collect(Collectors.toCollection(TreeSet::new)).toString();
    }

    private static void pump(List<KafkaConsumer<String, String>> consumers, Condition condition) throws Exception {
        until(() -> {
            consumers.forEach(consumer -> consumer.poll(Duration.ofMillis(20)));
            return condition.holds();
        });
    }

    private static Map<String, String> with(Map<String, String> settings, Map<String, String> more) {
        Map<String, String> together = new HashMap<>(settings);
        together.putAll(more);
        return together;
    }

    private static void until(Condition condition) throws Exception {
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (!condition.holds()) {
            equal(true, System.currentTimeMillis() < deadline);
            Thread.sleep(5);
        }
    }

    private static void refused(Set<Class<? extends KafkaException>> expected, Step step) throws Exception {
        try {
            step.run();
        } catch (KafkaException error) {
            if (!expected.contains(error.getClass())) throw error;
            return;
        }
        throw new AssertionError("not refused");
    }

    private static void equal(Object expected, Object actual) {
        if (!expected.equals(actual)) throw new AssertionError("expected " + expected + " but was " + actual);
    }
}
