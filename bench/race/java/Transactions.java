import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions of kafka-clients with its defaults and linger 0; each has RECORDS records, for all partitions in turn.
 *
 * <p>closed TOPIC PARTITIONS PRODUCERS RECORDS SECONDS | offered TOPIC PARTITIONS PRODUCERS RECORDS RATE SECONDS |
 * beside TOPIC CONNECTIONS OPEN SECONDS ROUNDS PID… | stall TOPIC PARTITIONS PRODUCERS SECONDS. Prints one line of JSON at
 * the end. Before its load `stall` prints a line with the node that coordinates most producers; only these producers
 * take part. Times are in milliseconds.
 */
public class Transactions {
  static final String SERVERS = System.getenv("BOOTSTRAP");
  static final long WARM_S = 8;
  static final long SETTLE_NANOS = 500_000_000L;
  static final byte[] VALUE = new byte[100];

  static KafkaProducer<byte[], byte[]> producer(String transactionalId) {
    Properties p = new Properties();
    p.put("bootstrap.servers", SERVERS);
    p.put("linger.ms", "0");
    if (transactionalId != null) p.put("transactional.id", transactionalId);
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    if (transactionalId != null) producer.initTransactions();
    return producer;
  }

  static List<KafkaProducer<byte[], byte[]>> producers(String topic, int count) {
    List<KafkaProducer<byte[], byte[]>> made = new ArrayList<>();
    for (int i = 0; i < count; i++) made.add(producer(topic + "-" + i));
    return made;
  }

  /** Times in nanoseconds. */
  static class Times {
    private long[] all = new long[1 << 14];
    private int count;

    synchronized void add(long nanos) {
      if (count == all.length) all = Arrays.copyOf(all, 2 * count);
      all[count++] = nanos;
    }

    synchronized double at(double share) {
      long[] sorted = Arrays.copyOf(all, count);
      Arrays.sort(sorted);
      return count == 0 ? 0 : sorted[Math.min(count - 1, (int) (count * share))] / 1e6;
    }

    synchronized int count() {
      return count;
    }
  }

  public static void main(String[] a) throws Exception {
    int[] n = Arrays.stream(a).skip(2).mapToInt(Integer::parseInt).toArray();
    switch (a[0]) {
      case "closed" -> closed(a[1], n[0], n[1], n[2], n[3]);
      case "offered" -> offered(a[1], n[0], n[1], n[2], n[3], n[4]);
      case "beside" -> beside(a[1], n[0], n[1], n[2], n[3], Arrays.copyOfRange(n, 4, n.length));
      case "stall" -> stall(a[1], n[0], n[1], n[2]);
      default -> throw new IllegalArgumentException(a[0]);
    }
    System.exit(0);
  }

  static Thread start(AutoCloseable work, AtomicLong failed, CountDownLatch ended) {
    Thread thread = new Thread(() -> {
      try {
        work.close();
      } catch (Exception e) {
        e.printStackTrace();
        failed.incrementAndGet();
      } finally {
        ended.countDown();
      }
    });
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  /** Run one transaction; return the nanoseconds of its commit, in which the client also waits for its records. */
  static long run(KafkaProducer<byte[], byte[]> producer, String topic, List<Integer> partitions, int records) {
    producer.beginTransaction();
    for (int i = 0; i < records; i++) {
      producer.send(new ProducerRecord<>(topic, partitions.get(i % partitions.size()), null, VALUE));
    }
    long begin = System.nanoTime();
    producer.commitTransaction();
    return System.nanoTime() - begin;
  }

  static List<Integer> first(int partitions) {
    List<Integer> found = new ArrayList<>();
    for (int i = 0; i < partitions; i++) found.add(i);
    return found;
  }

  static void print(String text, Object... values) {
    System.out.printf(Locale.ROOT, text + "%n", values);
    System.out.flush();
  }

  static void closed(String topic, int partitions, int count, int records, int seconds) throws Exception {
    Times commits = new Times(), whole = new Times();
    AtomicLong failed = new AtomicLong();
    CountDownLatch ended = new CountDownLatch(count);
    List<KafkaProducer<byte[], byte[]>> producers = producers(topic, count);
    long from = System.nanoTime() + WARM_S * 1_000_000_000L, until = from + seconds * 1_000_000_000L;
    for (KafkaProducer<byte[], byte[]> producer : producers) {
      start(() -> {
        for (long begin = System.nanoTime(); begin < until; ) {
          long commit = run(producer, topic, first(partitions), records), now = System.nanoTime();
          if (now > from && now < until) {
            commits.add(commit);
            whole.add(now - begin);
          }
          begin = now;
        }
      }, failed, ended);
    }
    ended.await();
    print("{\"per_s\": %.1f, \"commit_p50\": %.3f, \"commit_p99\": %.3f, \"p50\": %.3f, \"p99\": %.3f, \"failed\": %d}",
        commits.count() / (double) seconds, commits.at(.5), commits.at(.99), whole.at(.5), whole.at(.99), failed.get());
  }

  /** Run transactions at a fixed rate; `p99` counts from the moment at which each was due. */
  static void offered(String topic, int partitions, int count, int records, int rate, int seconds) throws Exception {
    Times commits = new Times(), whole = new Times();
    AtomicLong failed = new AtomicLong(), next = new AtomicLong();
    CountDownLatch ended = new CountDownLatch(count);
    List<KafkaProducer<byte[], byte[]>> producers = producers(topic, count);
    long all = (WARM_S + seconds) * rate, start = System.nanoTime() + 500_000_000L;
    for (KafkaProducer<byte[], byte[]> producer : producers) {
      start(() -> {
        for (long i; (i = next.getAndIncrement()) < all; ) {
          long due = start + i * 1_000_000_000L / rate;
          for (long wait; (wait = due - System.nanoTime()) > 0; ) LockSupport.parkNanos(wait);
          long commit = run(producer, topic, first(partitions), records);
          if (i < WARM_S * rate) continue;
          commits.add(commit);
          whole.add(System.nanoTime() - due);
        }
      }, failed, ended);
    }
    ended.await();
    print("{\"commit_p50\": %.3f, \"commit_p99\": %.3f, \"p50\": %.3f, \"p99\": %.3f, \"failed\": %d}",
        commits.at(.5), commits.at(.99), whole.at(.5), whole.at(.99), failed.get());
  }

  /**
   * Send single records without transactions on each of some connections, in turns without and with open transactions
   * of other producers in the same partition; each round is without, with, with, without. The other producers do
   * nothing but hold their transactions open, each with one record. `cpu_ratio` compares the CPU time of the given
   * processes per record; `noise` is the median over the rounds of the difference between the two runs without open
   * transactions.
   */
  static void beside(String topic, int connections, int open, int seconds, int rounds, int[] pids) throws Exception {
    List<KafkaProducer<byte[], byte[]>> plain = new ArrayList<>(), transactional = producers(topic, open);
    for (int i = 0; i < connections; i++) plain.add(producer(null));
    for (int i = 0; i < 2; i++) send(plain, topic, (int) WARM_S);
    Times ratios = new Times(), cpuRatios = new Times(), noise = new Times();
    double without = 0, with = 0;
    for (int round = 0; round < rounds; round++) {
      double cpu0 = cpuSeconds(pids);
      double first = send(plain, topic, seconds);
      double cpu1 = cpuSeconds(pids);
      for (KafkaProducer<byte[], byte[]> each : transactional) {
        each.beginTransaction();
        each.send(new ProducerRecord<>(topic, 0, null, VALUE)).get();
      }
      LockSupport.parkNanos(SETTLE_NANOS);
      double cpu2 = cpuSeconds(pids);
      double second = send(plain, topic, seconds) + send(plain, topic, seconds);
      double cpu3 = cpuSeconds(pids);
      for (KafkaProducer<byte[], byte[]> each : transactional) each.commitTransaction();
      LockSupport.parkNanos(SETTLE_NANOS);
      double cpu4 = cpuSeconds(pids);
      double last = send(plain, topic, seconds);
      double cpuWithout = (cpuSeconds(pids) - cpu4 + cpu1 - cpu0) / (first + last);
      ratios.add((long) (second / (first + last) * 1e6));
      cpuRatios.add((long) ((cpu3 - cpu2) / second / cpuWithout * 1e6));
      noise.add((long) ((Math.max(first, last) / Math.min(first, last) - 1) * 1e6));
      without += (first + last) / 2 / rounds;
      with += second / 2 / rounds;
    }
    print("{\"ratio\": %.4f, \"cpu_ratio\": %.4f, \"noise\": %.4f, \"without_per_s\": %.1f, \"with_per_s\": %.1f, \"failed\": 0}",
        ratios.at(.5), cpuRatios.at(.5), noise.at(.5), without, with);
  }

  /** Return the CPU time that the processes have used. */
  static double cpuSeconds(int[] pids) throws Exception {
    long ticks = 0;
    for (int pid : pids) {
      String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
      String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
      ticks += Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
    }
    return ticks / 100.0;
  }

  /** Send for some seconds, one record after another on each connection; return the records per second. */
  static double send(List<KafkaProducer<byte[], byte[]>> plain, String topic, int seconds) throws Exception {
    AtomicLong sent = new AtomicLong(), failed = new AtomicLong();
    CountDownLatch ended = new CountDownLatch(plain.size());
    CyclicBarrier ready = new CyclicBarrier(plain.size());
    for (KafkaProducer<byte[], byte[]> producer : plain) {
      start(() -> {
        ready.await();
        for (long until = System.nanoTime() + seconds * 1_000_000_000L; System.nanoTime() < until; sent.incrementAndGet()) {
          producer.send(new ProducerRecord<>(topic, 0, null, VALUE)).get();
        }
      }, failed, ended);
    }
    ended.await();
    if (failed.get() > 0) throw new IllegalStateException(failed + " producers failed");
    return sent.get() / (double) seconds;
  }

  /**
   * Run one transaction after another with each producer of one coordinator, in partitions led by other nodes; `gap_ms`
   * is the longest time between two commits of one producer. A failed transaction is aborted and not repeated.
   */
  static void stall(String topic, int partitions, int count, int seconds) throws Exception {
    List<KafkaProducer<byte[], byte[]>> producers = producers(topic, count);
    Map<Integer, List<KafkaProducer<byte[], byte[]>>> byNode = new TreeMap<>();
    List<Integer> used = first(partitions);
    int coordinator = -1;
    try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", SERVERS))) {
      for (int i = 0; i < count; i++) {
        String id = topic + "-" + i;
        int node = admin.describeTransactions(List.of(id)).description(id).get().coordinatorId();
        byNode.computeIfAbsent(node, n -> new ArrayList<>()).add(producers.get(i));
      }
      for (var each : byNode.entrySet()) {
        if (coordinator < 0 || each.getValue().size() > byNode.get(coordinator).size()) coordinator = each.getKey();
      }
      int killed = coordinator;
      for (var each : admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()) {
        if (each.leader().id() == killed) used.remove((Integer) each.partition());
      }
    }
    if (used.isEmpty()) throw new IllegalStateException("node " + coordinator + " leads all partitions");
    List<KafkaProducer<byte[], byte[]>> chosen = byNode.get(coordinator);
    AtomicLong failed = new AtomicLong(), aborted = new AtomicLong(), longest = new AtomicLong();
    CountDownLatch ended = new CountDownLatch(chosen.size());
    for (KafkaProducer<byte[], byte[]> producer : chosen) run(producer, topic, used, used.size());
    print("{\"coordinator\": %d}", coordinator);
    long until = System.nanoTime() + seconds * 1_000_000_000L;
    for (KafkaProducer<byte[], byte[]> producer : chosen) {
      start(() -> {
        long last = System.nanoTime();
        while (last < until) {
          try {
            run(producer, topic, used, used.size());
            long now = System.nanoTime();
            longest.accumulateAndGet(now - last, Math::max);
            last = now;
            LockSupport.parkNanos(10_000_000);
          } catch (ProducerFencedException | InvalidProducerEpochException | OutOfOrderSequenceException e) {
            throw e;
          } catch (KafkaException e) {
            aborted.incrementAndGet();
            producer.abortTransaction();
          }
        }
      }, failed, ended);
    }
    ended.await();
    print("{\"gap_ms\": %.1f, \"producers\": %d, \"aborted\": %d, \"failed\": %d}",
        longest.get() / 1e6, chosen.size(), aborted.get(), failed.get());
  }
}
