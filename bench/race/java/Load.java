import java.util.Arrays;
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
 * Load of single records through kafka-clients with its defaults (acks=all, idempotence), linger 0.
 *
 * <p>topic NAME PARTITIONS | delete NAME | leader NAME | closed TOPIC CONNECTIONS SECONDS BYTES | offered TOPIC RATE
 * SECONDS CONNECTIONS BYTES | gap TOPIC SECONDS. Prints one line of JSON at the end; `gap` prints `started` before its
 * load.
 */
public class Load {
  static final String SERVERS = System.getenv("BOOTSTRAP");
  static final long WARM_S = 4;

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

  /** Latencies in nanoseconds of the operations that ended inside the measured time. */
  static class Latencies {
    private long[] all = new long[1 << 16];
    private int count;

    synchronized void add(long nanos) {
      if (count == all.length) all = Arrays.copyOf(all, 2 * count);
      all[count++] = nanos;
    }

    void print(double seconds, long failed) {
      long[] sorted = Arrays.copyOf(all, count);
      Arrays.sort(sorted);
      System.out.printf(Locale.ROOT, "{\"per_s\": %.1f, \"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f, \"failed\": %d}%n",
          count / seconds, at(sorted, .5), at(sorted, .99), at(sorted, 1), failed);
    }

    static double at(long[] sorted, double share) {
      return sorted.length == 0 ? 0 : sorted[Math.min(sorted.length - 1, (int) (sorted.length * share))] / 1e6;
    }
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
      case "closed" -> closed(a[1], Integer.parseInt(a[2]), Long.parseLong(a[3]), Integer.parseInt(a[4]));
      case "offered" -> offered(a[1], Integer.parseInt(a[2]), Long.parseLong(a[3]), Integer.parseInt(a[4]), Integer.parseInt(a[5]));
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

  static void closed(String topic, int connections, long seconds, int bytes) throws Exception {
    Latencies latencies = new Latencies();
    AtomicLong failed = new AtomicLong();
    CountDownLatch ready = new CountDownLatch(connections), ended = new CountDownLatch(connections);
    for (int i = 0; i < connections; i++) {
      Thread thread = new Thread(() -> {
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
          ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, new byte[bytes]);
          producer.send(record).get();
          ready.countDown();
          ready.await();
          long from = System.nanoTime() + WARM_S * 1_000_000_000L, until = from + seconds * 1_000_000_000L;
          for (long begin = System.nanoTime(); begin < until; ) {
            boolean ok = true;
            try {
              producer.send(record).get();
            } catch (java.util.concurrent.ExecutionException e) {
              ok = false;
            }
            long now = System.nanoTime();
            if (now > from && now < until) {
              if (ok) latencies.add(now - begin);
              else failed.incrementAndGet();
            }
            begin = now;
          }
        } catch (Exception e) {
          e.printStackTrace();
          failed.incrementAndGet();
        } finally {
          ready.countDown();
          ended.countDown();
        }
      });
      thread.setDaemon(true);
      thread.start();
    }
    ended.await();
    latencies.print(seconds, failed.get());
  }

  static void offered(String topic, int rate, long seconds, int connections, int bytes) throws Exception {
    Latencies latencies = new Latencies();
    AtomicLong failed = new AtomicLong();
    int each = rate / connections, all = (int) (WARM_S + seconds) * each;
    CountDownLatch answered = new CountDownLatch(all * connections);
    for (int c = 0; c < connections; c++) {
      KafkaProducer<byte[], byte[]> producer = producer();
      producer.partitionsFor(topic);
      long start = System.nanoTime() + 1_000_000_000L + c * 1_000_000_000L / rate;
      new Thread(() -> {
        for (int i = 0; i < all; i++) {
          long due = start + i * 1_000_000_000L / each;
          for (long wait; (wait = due - System.nanoTime()) > 0; ) LockSupport.parkNanos(wait);
          boolean counts = i >= WARM_S * each;
          producer.send(new ProducerRecord<>(topic, new byte[bytes]), (metadata, error) -> {
            if (counts && error == null) latencies.add(System.nanoTime() - due);
            else if (counts) failed.incrementAndGet();
            answered.countDown();
          });
        }
      }).start();
    }
    answered.await();
    latencies.print(seconds, failed.get());
  }

  /** Send 100 records a second with the client's default timeouts; print the longest time between two answers. */
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
