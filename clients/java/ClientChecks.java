import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;

/**
 * Checks of the Java client, the same source for 3.9 and 4.x: admin | load TOPIC | static TOPIC | records TOPIC |
 * logins TOPIC | transactions TOPIC.
 *
 * <p>BOOTSTRAP has the brokers. If MECHANISM is set, all clients use TLS and log in, with CA, LOGIN and PASSWORD;
 * `logins` also needs WRONG_CA. `load` and `static` print `started`, work until stdin ends, and then check that every
 * acknowledged record is stored once, in order, and was delivered. Exit code 0 means that the check passed; the last
 * line says what was seen.
 */
public class ClientChecks {
  static final String SERVERS = System.getenv("BOOTSTRAP");
  static final String MECHANISM = System.getenv("MECHANISM"), USER = System.getenv("LOGIN"), PASSWORD = System.getenv("PASSWORD");
  static final int PARTITIONS = 6, MEMBERS = 3, PER_S = 500;

  static Properties properties(Object... pairs) {
    Properties p = new Properties();
    p.put("bootstrap.servers", SERVERS);
    if (MECHANISM != null) p.putAll(login(MECHANISM, USER, PASSWORD, System.getenv("CA")));
    for (int i = 0; i < pairs.length; i += 2) p.put(pairs[i], pairs[i + 1]);
    return p;
  }

  static void require(boolean isTrue, String problem) {
    if (!isTrue) throw new IllegalStateException(problem);
  }

  public static void main(String[] a) throws Exception {
    switch (a[0]) {
      case "admin" -> admin();
      case "records" -> records(a[1]);
      case "logins" -> logins(a[1]);
      case "transactions" -> transactions(a[1]);
      case "load" -> load(a[1], false);
      case "static" -> load(a[1], true);
      default -> throw new IllegalArgumentException(a[0]);
    }
    System.exit(0);
  }

  static <E extends Throwable> void fails(Class<E> expected, KafkaFuture<?> future) throws InterruptedException {
    try {
      future.get();
    } catch (ExecutionException e) {
      require(expected.isInstance(e.getCause()), "expected " + expected + ", got " + e.getCause());
      return;
    }
    throw new IllegalStateException("no " + expected);
  }

  /** Wait until a change has reached the broker that answers; as in Kafka, brokers learn of it at different times. */
  static void eventually(Callable<Boolean> isTrue, String problem) throws Exception {
    for (long until = System.nanoTime() + 5_000_000_000L; !isTrue.call(); Thread.sleep(5)) {
      require(System.nanoTime() < until, problem);
    }
  }

  static boolean isListed(Admin admin, String topic) throws Exception {
    return admin.listTopics().names().get().contains(topic);
  }

  static String setting(Admin admin, ConfigResource resource, String name) throws Exception {
    return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
  }

  static void admin() throws Exception {
    String topic = "java-admin-" + UUID.randomUUID();
    TopicPartition first = new TopicPartition(topic, 0);
    try (Admin admin = Admin.create(properties())) {
      require(admin.describeCluster().nodes().get().size() == 3, "describeCluster");
      NewTopic wanted = new NewTopic(topic, 3, (short) 3).configs(Map.of("retention.ms", "3600000"));
      CreateTopicsResult created = admin.createTopics(List.of(wanted));
      created.all().get();
      require(created.numPartitions(topic).get() == 3, "partitions in the answer");
      require(created.config(topic).get().get("retention.ms").value().equals("3600000"), "configuration in the answer");
      eventually(() -> isListed(admin, topic), "the new topic is not listed");
      fails(TopicExistsException.class, admin.createTopics(List.of(wanted)).all());
      CreateTopicsOptions dry = new CreateTopicsOptions().validateOnly(true);
      admin.createTopics(List.of(new NewTopic(topic + "-dry", 1, (short) 3)), dry).all().get();
      require(!admin.listTopics().names().get().contains(topic + "-dry"), "validateOnly created a topic");
      fails(InvalidReplicationFactorException.class, admin.createTopics(List.of(new NewTopic("x", 1, (short) 9))).all());
      fails(UnknownTopicOrPartitionException.class, admin.describeTopics(List.of("java-unknown")).allTopicNames());

      ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
      AlterConfigOp set = new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact,delete"), AlterConfigOp.OpType.SET);
      admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
      eventually(() -> setting(admin, resource, "cleanup.policy").equals("compact,delete"), "cleanup.policy");
      AlterConfigOp wrong = new AlterConfigOp(new ConfigEntry("no.such.setting", "1"), AlterConfigOp.OpType.SET);
      fails(ApiException.class, admin.incrementalAlterConfigs(Map.of(resource, List.of(wrong))).all());

      admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
      waitLeaders(admin, topic, 5);
      try (KafkaProducer<String, String> producer = producer()) {
        for (int i = 0; i < 100; i++) producer.send(new ProducerRecord<>(topic, 0, 1000L + i, "k" + i, "v" + i)).get();
      }
      require(offset(admin, first, OffsetSpec.latest()) == 100, "latest offset");
      require(offset(admin, first, OffsetSpec.forTimestamp(1050)) == 50, "offset of a timestamp");
      admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(10))).all().get();
      require(offset(admin, first, OffsetSpec.earliest()) == 10, "earliest offset after deleteRecords");
      admin.alterConsumerGroupOffsets("java-admin", Map.of(first, new OffsetAndMetadata(42, Optional.of(1), "note"))).all().get();
      OffsetAndMetadata stored = admin.listConsumerGroupOffsets("java-admin").partitionsToOffsetAndMetadata().get().get(first);
      require(stored.offset() == 42 && stored.metadata().equals("note"), "stored offset " + stored);
      require(admin.listConsumerGroups().all().get().stream().anyMatch(g -> g.groupId().equals("java-admin")), "listConsumerGroups");
      admin.deleteConsumerGroups(List.of("java-admin")).all().get();
      admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions().get();
      require(admin.listPartitionReassignments().reassignments().get().isEmpty(), "reassignments");
      try {
        admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).all().get();
      } catch (ExecutionException e) {
        require(e.getCause() instanceof ElectionNotNeededException, "electLeaders: " + e.getCause());
      }
      admin.describeProducers(List.of(first)).all().get();
      admin.deleteTopics(List.of(topic)).all().get();
      eventually(() -> !isListed(admin, topic), "the deleted topic is listed");
    }
    System.out.println("topics, configurations, partitions, offsets, records, groups, log directories, elections");
  }

  static void waitLeaders(Admin admin, String topic, int partitions) throws Exception {
    for (int i = 0; i < 500; i++) {
      TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
      if (described.partitions().size() == partitions
          && described.partitions().stream().allMatch(p -> p.leader() != null && !p.leader().isEmpty())) return;
      Thread.sleep(20);
    }
    throw new IllegalStateException(topic + " has no leaders");
  }

  static long offset(Admin admin, TopicPartition partition, OffsetSpec spec) throws Exception {
    return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
  }

  static KafkaProducer<String, String> producer(Object... pairs) {
    return new KafkaProducer<>(properties(pairs), new StringSerializer(), new StringSerializer());
  }

  static void create(String topic, int partitions) throws Exception {
    try (Admin admin = Admin.create(properties())) {
      admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 3))).all().get();
      waitLeaders(admin, topic, partitions);
    }
  }

  /** Check every compression, headers, null keys and values, large records, and seek by time. */
  static void records(String topic) throws Exception {
    create(topic, 1);
    TopicPartition partition = new TopicPartition(topic, 0);
    String large = "x".repeat(900_000);
    int sent = 0;
    for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
      try (KafkaProducer<String, String> producer = producer("compression.type", compression)) {
        for (int i = 0; i < 200; i++, sent++) {
          var headers = List.<org.apache.kafka.common.header.Header>of(new RecordHeader("h", compression.getBytes()));
          String value = i == 0 ? null : i == 1 ? large : compression + i;
          producer.send(new ProducerRecord<>(topic, 0, 1_000_000L + sent, i % 2 == 0 ? null : "k" + i, value, headers));
        }
      }
    }
    try (KafkaConsumer<String, String> consumer = consumer("java-records", "auto.offset.reset", "earliest")) {
      consumer.assign(List.of(partition));
      consumer.seekToBeginning(List.of(partition));
      int read = 0, nulls = 0, larges = 0;
      for (long until = System.nanoTime() + 30_000_000_000L; read < sent && System.nanoTime() < until; ) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
          require(record.offset() == read && record.timestamp() == 1_000_000L + read, "record " + record);
          require(record.headers().lastHeader("h") != null, "no header at " + read);
          if (record.value() == null) nulls++;
          else if (record.value().length() == large.length()) larges++;
          read++;
        }
      }
      require(read == sent && nulls == 5 && larges == 5, read + " of " + sent + " records, " + nulls + ", " + larges);
      require(consumer.offsetsForTimes(Map.of(partition, 1_000_300L)).get(partition).offset() == 300, "offsetsForTimes");
      consumer.seek(partition, 777);
      require(consumer.poll(Duration.ofSeconds(10)).iterator().next().offset() == 777, "seek");
    }
    System.out.println(sent + " records in 5 compressions, with headers, tombstones, records of 900 kB");
  }

  /** Return the properties of a client that uses TLS and logs in. */
  static Properties login(String mechanism, String user, String password, String authority) {
    String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
    String given = " required username=\"" + user + "\" password=\"" + password + "\";";
    Properties p = new Properties();
    p.put("security.protocol", "SASL_SSL");
    p.put("ssl.truststore.type", "PEM");
    p.put("ssl.truststore.location", authority);
    p.put("sasl.mechanism", mechanism);
    p.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + given);
    return p;
  }

  /** Require that a client with this login is refused with `expected` at once, not after retries. */
  static void refused(Class<? extends AuthenticationException> expected, Properties login) throws Exception {
    Properties p = properties("default.api.timeout.ms", "60000");
    p.putAll(login);
    try (Admin admin = Admin.create(p)) {
      fails(expected, admin.describeCluster().nodes());
    }
  }

  /** Write and read a record with each mechanism; wrong passwords, unknown users and another authority must fail. */
  static void logins(String topic) throws Exception {
    create(topic, 1);
    TopicPartition partition = new TopicPartition(topic, 0);
    String authority = System.getenv("CA"), wrong = System.getenv("WRONG_CA");
    List<String> mechanisms = List.of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512");
    for (int i = 0; i < mechanisms.size(); i++) {
      String mechanism = mechanisms.get(i);
      Properties p = properties();
      p.putAll(login(mechanism, USER, PASSWORD, authority));
      try (var producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
        require(producer.send(new ProducerRecord<>(topic, mechanism)).get().offset() == i, "offset with " + mechanism);
      }
      try (var consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
        consumer.assign(List.of(partition));
        consumer.seek(partition, i);
        require(consumer.poll(Duration.ofSeconds(60)).iterator().next().value().equals(mechanism), "value with " + mechanism);
      }
      refused(SaslAuthenticationException.class, login(mechanism, USER, "wrong", authority));
      refused(SaslAuthenticationException.class, login(mechanism, "nobody", PASSWORD, authority));
      refused(SslAuthenticationException.class, login(mechanism, USER, PASSWORD, wrong));
    }
    System.out.println(String.join(", ", mechanisms) + "; wrong password, unknown user and wrong authority refused");
  }

  static KafkaProducer<String, String> transactional(String id) {
    KafkaProducer<String, String> producer = producer("transactional.id", id);
    producer.initTransactions();
    return producer;
  }

  /** Return the values of a topic of one partition, up to its end at the isolation level. */
  static List<String> values(String topic, String isolation) {
    List<String> found = new ArrayList<>();
    TopicPartition partition = new TopicPartition(topic, 0);
    try (KafkaConsumer<String, String> consumer = consumer("java-reader", "isolation.level", isolation)) {
      consumer.assign(List.of(partition));
      consumer.seekToBeginning(List.of(partition));
      long end = consumer.endOffsets(List.of(partition)).get(partition);
      while (consumer.position(partition) < end) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) found.add(record.value());
      }
    }
    return found;
  }

  /** Check commit, abort, fencing, read-process-write with a consumer group, and administration. */
  static void transactions(String topic) throws Exception {
    String out = topic + "-out";
    create(topic, 1);
    create(out, 1);
    int count = 200, moved = 0;
    try (Admin admin = Admin.create(properties());
        KafkaProducer<String, String> first = transactional(topic)) {
      for (int i = 0; i < count; i++) {
        boolean isAborted = i % 4 == 3;
        first.beginTransaction();
        first.send(new ProducerRecord<>(topic, (isAborted ? "aborted" : "value") + i));
        first.flush();
        if (isAborted) first.abortTransaction();
        else first.commitTransaction();
      }
      first.beginTransaction();
      first.send(new ProducerRecord<>(topic, "zombie")).get();
      require(admin.listTransactions().all().get().stream().anyMatch(t -> t.transactionalId().equals(topic)), "list");
      TransactionDescription described = admin.describeTransactions(List.of(topic)).description(topic).get();
      require(described.state() == TransactionState.ONGOING, "state " + described);
      require(described.topicPartitions().equals(Set.of(new TopicPartition(topic, 0))), "partitions " + described);
      try (KafkaProducer<String, String> second = transactional(topic)) {
        try {
          first.commitTransaction();
          throw new IllegalStateException("a fenced producer committed");
        } catch (ProducerFencedException | InvalidProducerEpochException e) {
          second.beginTransaction();
          second.send(new ProducerRecord<>(topic, "value" + count));
          second.commitTransaction();
        }
      }
      List<String> read = values(topic, "read_committed");
      require(read.size() == count - count / 4 + 1, read.size() + " committed records");
      require(read.stream().allMatch(value -> value.startsWith("value")), "aborted records were read: " + read);
      require(values(topic, "read_uncommitted").size() == count + 2, "uncommitted records");

      try (KafkaProducer<String, String> mover = transactional(out);
          KafkaConsumer<String, String> consumer =
              consumer("java-mover", "auto.offset.reset", "earliest", "enable.auto.commit", "false",
                  "isolation.level", "read_committed", "max.poll.records", "10")) {
        consumer.subscribe(List.of(topic));
        for (int round = 0; moved < read.size(); round++) {
          ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(5));
          if (records.isEmpty()) continue;
          mover.beginTransaction();
          Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
          for (ConsumerRecord<String, String> record : records) {
            mover.send(new ProducerRecord<>(out, record.value()));
            offsets.put(new TopicPartition(topic, 0), new OffsetAndMetadata(record.offset() + 1));
          }
          mover.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
          if (round % 3 == 1) {
            mover.abortTransaction();
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.seek(partition, consumer.committed(Set.of(partition)).get(partition).offset());
          } else {
            mover.commitTransaction();
            moved += records.count();
          }
        }
      }
      require(values(out, "read_committed").equals(read), "the moved records are not those that were read");
      admin.fenceProducers(List.of(out)).all().get();
      admin.deleteTopics(List.of(topic, out)).all().get();
    }
    System.out.println(count + " transactions, " + moved + " records moved exactly once, fencing, administration");
  }

  static KafkaConsumer<String, String> consumer(String group, Object... pairs) {
    Properties p = properties(pairs);
    p.put("group.id", group);
    return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
  }

  static final Map<String, String> read = new ConcurrentHashMap<>();
  static final AtomicLong deliveries = new AtomicLong(), rebalances = new AtomicLong();
  static volatile Throwable problem;

  static class Member extends Thread implements ConsumerRebalanceListener {
    final String topic;
    final KafkaConsumer<String, String> consumer;
    volatile boolean isEnding;

    Member(String topic, Object... pairs) {
      this.topic = topic;
      consumer = consumer("group-" + topic, pairs);
    }

    @Override
    public void run() {
      try (consumer) {
        consumer.subscribe(List.of(topic), this);
        while (!isEnding) {
          for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
            deliveries.incrementAndGet();
            String before = read.put(record.partition() + "/" + record.offset(), record.value());
            require(before == null || before.equals(record.value()), "two values at " + record);
          }
        }
      } catch (Throwable e) {
        problem = e;
      }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      rebalances.incrementAndGet();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}
  }

  static Member member(String topic, int number, boolean isStatic) {
    Member member = isStatic
        ? new Member(topic, "auto.offset.reset", "earliest", "group.instance.id", "m" + number)
        : new Member(topic, "auto.offset.reset", "earliest", "partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
    member.start();
    return member;
  }

  static void load(String topic, boolean isStatic) throws Exception {
    create(topic, PARTITIONS);
    List<Member> members = new ArrayList<>();
    for (int i = 0; i < MEMBERS; i++) members.add(member(topic, i, isStatic));
    Map<String, String> acked = new ConcurrentHashMap<>();
    AtomicLong last = new AtomicLong(System.nanoTime()), longest = new AtomicLong();
    AtomicBoolean isEnding = new AtomicBoolean();
    Thread stdin = new Thread(() -> {
      try {
        while (System.in.read() >= 0) {}
      } catch (java.io.IOException e) {
        problem = e;
      }
      isEnding.set(true);
    });
    stdin.setDaemon(true);
    stdin.start();
    long sent = 0;
    try (KafkaProducer<String, String> producer = producer()) {
      producer.partitionsFor(topic);
      long start = System.nanoTime();
      for (; !isEnding.get() && problem == null; sent++) {
        long wait = start + sent * 1_000_000_000L / PER_S - System.nanoTime();
        if (wait > 0) TimeUnit.NANOSECONDS.sleep(wait);
        String value = Long.toString(sent);
        producer.send(new ProducerRecord<>(topic, (int) (sent % PARTITIONS), null, value), (metadata, error) -> {
          if (error != null) {
            problem = error;
            return;
          }
          acked.put(metadata.partition() + "/" + metadata.offset(), value);
          long now = System.nanoTime();
          longest.accumulateAndGet(now - last.getAndSet(now), Math::max);
        });
        if (sent == PER_S) {
          System.out.println("started");
          longest.set(0);
        }
        if (sent == 3 * PER_S) {
          members.get(0).isEnding = true;
          members.get(0).join();
          members.set(0, member(topic, 0, isStatic));
        }
      }
    }
    if (problem != null) throw new IllegalStateException(problem);
    require(acked.size() == sent, acked.size() + " of " + sent + " records were acknowledged");
    for (long until = System.nanoTime() + 60_000_000_000L; !read.keySet().containsAll(acked.keySet()) && System.nanoTime() < until; ) Thread.sleep(100);
    for (Member member : members) {
      member.isEnding = true;
      member.join();
    }
    if (problem != null) throw new IllegalStateException(problem);
    Set<String> missing = new TreeSet<>(acked.keySet());
    missing.removeAll(read.keySet());
    require(missing.isEmpty(), missing.size() + " acknowledged records were not read: " + missing.stream().limit(5).toList());
    acked.forEach((at, value) -> require(value.equals(read.get(at)), at + " has " + read.get(at) + ", not " + value));
    require(new HashSet<>(read.values()).size() == read.size(), "records are stored twice");
    for (int partition = 0; partition < PARTITIONS; partition++) {
      long before = -1;
      for (long offset = 0; read.containsKey(partition + "/" + offset); offset++) {
        long value = Long.parseLong(read.get(partition + "/" + offset));
        require(value > before, "partition " + partition + ": " + value + " behind " + before);
        before = value;
      }
    }
    System.out.printf(Locale.ROOT, "%d records, each once and in order; %d deliveries, %d assignments; longest gap %.2f s%n",
        sent, deliveries.get(), rebalances.get(), longest.get() / 1e9);
  }
}
