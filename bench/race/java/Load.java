import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Administration of topics, and a load of single records through kafka-clients with its defaults (acks=all,
 * idempotence), linger 0.
 *
 * <p>topic NAME PARTITIONS | delete NAME | leader NAME | gap TOPIC SECONDS. Prints one line of JSON at the end; `gap`
 * prints `started` before its load.
 */
public class Load {
  static final String SERVERS = System.getenv("BOOTSTRAP");

  static KafkaProducer<byte[], byte[]> producer() {
    Properties p = new Properties();
    p.put("bootstrap.servers", SERVERS);
    p.put("linger.ms", "0");
    return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
  }

  static Admin admin() {
    Properties p = new Properties();
    p.put("bootstrap.servers", SERVERS);
    p.put("default.api.timeout.ms", "20000");
    p.put("request.timeout.ms", "10000");
    return Admin.create(p);
  }

  public static void main(String[] a) throws Exception {
    switch (a[0]) {
      case "topic" -> create(a[1], Integer.parseInt(a[2]));
      case "delete" -> {
        try (Admin admin = admin()) {
          admin.deleteTopics(List.of(a[1])).all().get();
        }
      }
      case "leader" -> {
        try (Admin admin = admin()) {
          System.out.println("{\"leader\": " + describe(admin, a[1]).partitions().get(0).leader().id() + "}");
        }
      }
      case "gap" -> gap(a[1], Integer.parseInt(a[2]));
      default -> throw new IllegalArgumentException(a[0]);
    }
    System.exit(0);
  }

  static TopicDescription describe(Admin admin, String topic) throws Exception {
    return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
  }

  static void create(String topic, int partitions) throws Exception {
    try (Admin admin = admin()) {
      admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions), Optional.of((short) 3)))).all().get();
      for (int i = 0; i < 1500; i++) {
        try {
          if (describe(admin, topic).partitions().stream().allMatch(p -> p.leader() != null && !p.leader().isEmpty() && p.isr().size() == 3)) return;
        } catch (java.util.concurrent.ExecutionException e) {
          if (!(e.getCause() instanceof org.apache.kafka.common.errors.RetriableException)) throw e;
        }
        Thread.sleep(20);
      }
      throw new IllegalStateException("not all replicas are in sync after 30 s");
    }
  }

  static void gap(String topic, int seconds) throws Exception {
    KafkaProducer<byte[], byte[]> producer = producer();
    producer.send(new ProducerRecord<>(topic, new byte[100])).get();
    AtomicLong failed = new AtomicLong(), last = new AtomicLong(System.nanoTime()), longest = new AtomicLong();
    CountDownLatch answered = new CountDownLatch(100 * seconds);
    System.out.println("started");
    System.out.flush();
    long start = System.nanoTime();
    for (int i = 0; i < 100 * seconds; i++) {
      for (long wait; (wait = start + i * 10_000_000L - System.nanoTime()) > 0; ) LockSupport.parkNanos(wait);
      producer.send(new ProducerRecord<>(topic, new byte[100]), (metadata, error) -> {
        if (error == null) {
          long now = System.nanoTime();
          longest.accumulateAndGet(now - last.getAndSet(now), Math::max);
        } else failed.incrementAndGet();
        answered.countDown();
      });
    }
    answered.await();
    System.out.printf(Locale.ROOT, "{\"gap_ms\": %.1f, \"failed\": %d}%n", longest.get() / 1e6, failed.get());
  }
}
