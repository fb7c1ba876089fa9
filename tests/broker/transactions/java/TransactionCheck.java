import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java client's transactions against the cluster of the first argument. Every public method is a behaviour; for
 * each named in the other arguments one line is printed: its name, a tab, and "ok" or what went wrong.
 */
public class TransactionCheck implements AutoCloseable {
    private final String bootstrap;
    private final Admin admin;

    TransactionCheck(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] args) throws Exception {
        try (TransactionCheck check = new TransactionCheck(args[0])) {
            for (String name : Arrays.copyOfRange(args, 1, args.length)) {
                System.out.println(name + "\t" + check.run(name));
            }
        }
    }

    private String run(String name) throws Exception {
        try {
            TransactionCheck.class.getMethod(name).invoke(this);
            return "ok";
        } catch (InvocationTargetException e) {
            e.getCause().printStackTrace();
            return e.getCause().toString().replace('\n', ' ');
        }
    }

    @Override
    public void close() {
        admin.close();
    }

    public void commits_are_read_and_aborts_are_not() throws Exception {
        String topic = newTopic(3);
        try (KafkaProducer<String, String> producer = producer(newName())) {
            producer.initTransactions();
            for (int i = 0; i < 20; i++) {
                producer.beginTransaction();
                for (int p = 0; p < 3; p++) {
                    producer.send(new ProducerRecord<>(topic, p, null, "" + i));
                }
                if (i % 4 == 3) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    commit(producer);
                }
            }
        }
        List<String> expected = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            if (i % 4 != 3) expected.add("" + i);
        }
        for (int p = 0; p < 3; p++) {
            awaitNoneOpen(topic, p);
            equal(expected, read(topic, p, "read_committed"));
            equal(20, read(topic, p, "read_uncommitted").size());
        }
    }

    public void every_transaction_has_its_own_epoch() throws Exception {
        String topic = newTopic(1);
        String id = newName();
        try (KafkaProducer<String, String> producer = producer(id)) {
            producer.initTransactions();
            for (int i = 0; i < 5; i++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "" + i));
                commit(producer);
            }
        }
        equal(5, (int) describe(id).producerEpoch());
    }

    public void a_second_producer_fences_the_first() throws Exception {
        String topic = newTopic(1);
        String id = newName();
        try (KafkaProducer<String, String> old = producer(id); KafkaProducer<String, String> young = producer(id)) {
            old.initTransactions();
            old.beginTransaction();
            old.send(new ProducerRecord<>(topic, "zombie")).get();
            young.initTransactions();
            try {
                old.commitTransaction();
                throw new AssertionError("not fenced");
            } catch (ProducerFencedException | InvalidProducerEpochException expected) {
                // just so
            }
            young.beginTransaction();
            young.send(new ProducerRecord<>(topic, "new"));
            commit(young);
        }
        awaitNoneOpen(topic, 0);
        equal(List.of("new"), read(topic, 0, "read_committed"));
    }

    public void offsets_and_records_commit_together() throws Exception {
        String topic = newTopic(1);
        String group = newName();
        TopicPartition tp = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = producer(newName())) {
            producer.initTransactions();
            for (int i = 0; i < 2; i++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, "" + i));
                producer.sendOffsetsToTransaction(
                    Map.of(tp, new OffsetAndMetadata(10 + i, "meta")), new ConsumerGroupMetadata(group));
                if (i == 0) producer.commitTransaction(); else producer.abortTransaction();
            }
        }
        OffsetAndMetadata found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(tp);
        equal(10L, found.offset());
        equal("meta", found.metadata());
    }

    public void consume_transform_produce_is_exactly_once() throws Exception {
        String in = newTopic(2);
        String out = newTopic(2);
        String group = newName();
        String id = newName();
        try (KafkaProducer<String, String> producer = producer(null)) {
            for (int i = 0; i < 500; i++) producer.send(new ProducerRecord<>(in, i % 2, null, "" + i));
        }
        int copied = 0;
        for (int round = 0; round < 5; round++) {
            copied += copy(in, out, group, id, 100);
        }
        equal(500, copied);
        List<String> seen = new ArrayList<>(read(out, 0, "read_committed"));
        seen.addAll(read(out, 1, "read_committed"));
        equal(500, seen.size());
        equal(500, Set.copyOf(seen).size());
    }

    /** Copies until `wanted` records are committed, then leaves a transaction open, as a crash would. */
    private int copy(String in, String out, String group, String id, int wanted) throws Exception {
        int done = 0;
        KafkaProducer<String, String> producer = producer(id);
        try (KafkaConsumer<String, String> consumer = consumer(group, "read_committed")) {
            producer.initTransactions();
            consumer.subscribe(List.of(in));
            long deadline = System.currentTimeMillis() + 30_000;
            while (done < wanted && System.currentTimeMillis() < deadline) {
                var records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) continue;
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new java.util.HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(out, record.partition(), null, record.value()));
                    offsets.put(new TopicPartition(in, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                done += records.count();
            }
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(out, 0, null, "left open")).get();
        } finally {
            producer.close(Duration.ZERO);
        }
        return done;
    }

    public void an_administrator_sees_and_ends_transactions() throws Exception {
        String topic = newTopic(1);
        String id = newName();
        TopicPartition tp = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = producer(id)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "open")).get();
            TransactionDescription description = describe(id);
            equal(TransactionState.ONGOING, description.state());
            equal(Set.of(tp), description.topicPartitions());
            List<TransactionListing> listed = admin.listTransactions(
                new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING))).all().get()
                .stream().filter(t -> t.transactionalId().equals(id)).toList();
            equal(1, listed.size());
            ProducerState state = admin.describeProducers(Set.of(tp)).partitionResult(tp).get().activeProducers().get(0);
            equal(0L, state.currentTransactionStartOffset().getAsLong());
            admin.abortTransaction(new AbortTransactionSpec(tp, state.producerId(), (short) state.producerEpoch(),
                state.coordinatorEpoch().orElse(0))).all().get();
            equal(false, admin.describeProducers(Set.of(tp)).partitionResult(tp).get().activeProducers().get(0)
                .currentTransactionStartOffset().isPresent());
            admin.fenceProducers(List.of(id)).all().get();
            try {
                producer.commitTransaction();
                throw new AssertionError("not fenced");
            } catch (KafkaException expected) {
                // just so
            }
        }
        equal(List.of(), read(topic, 0, "read_committed"));
    }

    // -- parts --------------------------------------------------------------------------------

    /**
     * Without the flush the client (4.3) may send EndTxn before the records: its sender thread asks whether records
     * wait, and only then takes the next request; what is sent and committed between the two comes too late. Apache
     * Kafka, too, answers INVALID_TXN_STATE then.
     */
    private static void commit(KafkaProducer<String, String> producer) {
        producer.flush();
        producer.commitTransaction();
    }

    private TransactionDescription describe(String id) throws Exception {
        return admin.describeTransactions(List.of(id)).description(id).get();
    }

    private String newName() {
        return "java-" + UUID.randomUUID();
    }

    private String newTopic(int partitions) throws ExecutionException, InterruptedException {
        String name = newName();
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        return name;
    }

    private KafkaProducer<String, String> producer(String id) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        if (id != null) config.put("transactional.id", id);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String group, String isolation) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("isolation.level", isolation);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("max.poll.records", "25");
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private List<String> read(String topic, int partition, String isolation) {
        TopicPartition tp = new TopicPartition(topic, partition);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(newName(), isolation)) {
            consumer.assign(List.of(tp));
            consumer.seekToBeginning(List.of(tp));
            long end = consumer.endOffsets(List.of(tp)).get(tp);
            long deadline = System.currentTimeMillis() + 30_000;
            while (consumer.position(tp) < end) {
                if (System.currentTimeMillis() > deadline) throw new AssertionError("no end in sight");
                consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    private long end(TopicPartition tp, IsolationLevel isolation) throws Exception {
        ListOffsetsOptions options = new ListOffsetsOptions(isolation);
        return admin.listOffsets(Map.of(tp, OffsetSpec.latest()), options).partitionResult(tp).get().offset();
    }

    /** The end of a transaction is visible a moment after its answer. */
    private void awaitNoneOpen(String topic, int partition) throws Exception {
        TopicPartition tp = new TopicPartition(topic, partition);
        long deadline = System.currentTimeMillis() + 30_000;
        while (end(tp, IsolationLevel.READ_COMMITTED) < end(tp, IsolationLevel.READ_UNCOMMITTED)) {
            if (System.currentTimeMillis() > deadline) throw new AssertionError("a transaction stays open");
        }
    }

    private static void equal(Object expected, Object actual) {
        if (!expected.equals(actual)) throw new AssertionError("expected " + expected + ", got " + actual);
    }
}
