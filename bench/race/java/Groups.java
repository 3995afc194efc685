import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of one consumer group with the client's defaults, and a session of 10 s: TOPIC GROUP ASSIGNOR MEMBERS.
 *
 * <p>Each line of stdin adds a member. Prints a line of JSON at each change of an assignment, and before a member is
 * added: milliseconds, members, members with partitions, and assigned partitions; `shared` is the number of partitions
 * that two members have.
 */
public class Groups {
  static final Map<Integer, Set<TopicPartition>> ASSIGNED = new ConcurrentHashMap<>();

  public static void main(String[] a) throws Exception {
    int members = Integer.parseInt(a[3]);
    for (int i = 0; i < members; i++) add(a[0], a[1], a[2], i);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    while (in.readLine() != null) {
      add(a[0], a[1], a[2], members++);
      print();
    }
    System.exit(0);
  }

  static void add(String topic, String group, String assignor, int number) {
    ASSIGNED.put(number, new HashSet<>());
    Properties p = new Properties();
    p.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
    p.put("group.id", group);
    p.put("session.timeout.ms", "10000");
    p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
    Thread thread = new Thread(() -> {
      try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
        consumer.subscribe(List.of(topic), new Listener(number));
        while (true) consumer.poll(Duration.ofMillis(100));
      } catch (Exception e) {
        e.printStackTrace();
        System.exit(1);
      }
    });
    thread.setDaemon(true);
    thread.start();
  }

  static synchronized void change(int number, Collection<TopicPartition> partitions, boolean isAssigned) {
    if (partitions.isEmpty()) return;
    if (isAssigned) ASSIGNED.get(number).addAll(partitions);
    else ASSIGNED.get(number).removeAll(partitions);
    print();
  }

  static synchronized void print() {
    Set<TopicPartition> all = new HashSet<>();
    int busy = 0, total = 0;
    for (Set<TopicPartition> each : ASSIGNED.values()) {
      if (!each.isEmpty()) busy++;
      total += each.size();
      all.addAll(each);
    }
    System.out.printf("{\"at_ms\": %d, \"members\": %d, \"busy\": %d, \"assigned\": %d, \"shared\": %d}%n",
        System.nanoTime() / 1_000_000, ASSIGNED.size(), busy, all.size(), total - all.size());
    System.out.flush();
  }

  record Listener(int number) implements ConsumerRebalanceListener {
    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      change(number, partitions, true);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      change(number, partitions, false);
    }
  }
}
