import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactional producers and consumers of kafka-clients, by name: stdin has calls and stdout has answers, one a line.
 *
 * <p>Call: ID NAME VERB ARGUMENT…; answer: ID ok RESULT… or ID error CLASS MESSAGE; with tabs between, bytes in
 * base64, and - for null. Each client executes its calls in a thread of its own, one after another, so answers come in
 * any order; the close of a producer interrupts its other calls. The program ends at the end of stdin, and with a stack
 * trace at any error that is not of the library.
 */
public class TransactionalClients {
  static final String SERVERS = System.getenv("BOOTSTRAP");
  static final String NULL = "-";
  static final CloseOptions CLOSE_SOON = CloseOptions.timeout(Duration.ofSeconds(1));
  static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new ConcurrentHashMap<>();
  static final Map<String, KafkaConsumer<byte[], byte[]>> CONSUMERS = new ConcurrentHashMap<>();
  static final Map<String, ExecutorService> THREADS = new HashMap<>();

  public static void main(String[] arguments) throws IOException {
    BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = calls.readLine()) != null; ) {
      String[] call = line.split("\t");
      ExecutorService thread = THREADS.computeIfAbsent(call[1], name -> Executors.newSingleThreadExecutor());
      KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(call[1]);
      if (call[2].equals("close") && producer != null) {
        new Thread(() -> producer.close(Duration.ZERO)).start(); // a commit may wait in the producer's own thread
      }
      thread.execute(() -> execute(call));
      if (call[2].equals("close")) THREADS.remove(call[1]).shutdown();
    }
    System.exit(0);
  }

  static void execute(String[] call) {
    try {
      if (call[2].equals("append")) {
        append(call);
      } else {
        answer(call[0], "ok", result(call));
      }
    } catch (KafkaException | IllegalStateException | ConcurrentModificationException error) {
      fail(call[0], error); // the last one if a chain ends and closes its consumer within the call `offsets`
    } catch (Throwable error) {
      error.printStackTrace();
      System.exit(1);
    }
  }

  static List<String> result(String[] call) {
    String name = call[1];
    switch (call[2]) {
      case "producer" -> PRODUCERS.put(name, producer(name, call[3], call[4], call[5]));
      case "initialize" -> open(PRODUCERS, name).initTransactions();
      case "begin" -> open(PRODUCERS, name).beginTransaction();
      case "offsets" -> {
        KafkaConsumer<byte[], byte[]> consumer = open(CONSUMERS, call[3]);
        open(PRODUCERS, name).sendOffsetsToTransaction(offsets(call), consumer.groupMetadata());
      }
      case "commit" -> open(PRODUCERS, name).commitTransaction();
      case "abort" -> open(PRODUCERS, name).abortTransaction();
      case "consumer" -> CONSUMERS.put(name, consumer(name, call[3], Integer.parseInt(call[4]), call[5]));
      case "subscribe" -> open(CONSUMERS, name).subscribe(List.of(call[3]));
      case "poll" -> {
        return poll(open(CONSUMERS, name), Duration.ofMillis(Long.parseLong(call[3])));
      }
      case "stable" -> {
        return stable(open(CONSUMERS, name), Duration.ofMillis(Long.parseLong(call[3])));
      }
      case "close" -> {
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.remove(name);
        KafkaConsumer<byte[], byte[]> consumer = CONSUMERS.remove(name);
        if (producer != null) producer.close(Duration.ZERO);
        if (consumer != null) consumer.close(CLOSE_SOON);
      }
      default -> throw new IllegalArgumentException(call[2]);
    }
    return List.of();
  }

  static <T> T open(Map<String, T> clients, String name) {
    T client = clients.get(name);
    if (client == null) throw new IllegalStateException(name + " is closed");
    return client;
  }

  static Properties properties(String name) {
    Properties p = new Properties();
    p.put("bootstrap.servers", SERVERS);
    p.put("client.id", name);
    return p;
  }

  static KafkaProducer<byte[], byte[]> producer(String name, String id, String timeoutMs, String requestMs) {
    Properties p = properties(name);
    p.put("transactional.id", id);
    p.put("transaction.timeout.ms", timeoutMs);
    p.put("delivery.timeout.ms", timeoutMs);
    p.put("max.block.ms", timeoutMs);
    p.put("request.timeout.ms", requestMs);
    p.put("linger.ms", "0");
    return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
  }

  static KafkaConsumer<byte[], byte[]> consumer(String name, String group, int sessionMs, String recordsMax) {
    Properties p = properties(name);
    p.put("group.id", group);
    p.put("isolation.level", "read_committed");
    p.put("enable.auto.commit", "false");
    p.put("auto.offset.reset", "earliest");
    p.put("session.timeout.ms", sessionMs);
    p.put("heartbeat.interval.ms", sessionMs / 4);
    p.put("max.poll.interval.ms", 3 * sessionMs);
    p.put("max.poll.records", recordsMax);
    return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  /** Append a record; its delivery is the answer. */
  static void append(String[] call) {
    byte[] value = Base64.getDecoder().decode(call[5]);
    ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(call[3], Integer.parseInt(call[4]), null, value);
    open(PRODUCERS, call[1]).send(record, (found, error) -> {
      if (error == null) {
        answer(call[0], "ok", List.of(Long.toString(found.offset())));
      } else {
        fail(call[0], error);
      }
    });
  }

  static Map<TopicPartition, OffsetAndMetadata> offsets(String[] call) {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    for (int i = 4; i < call.length; i += 3) {
      TopicPartition place = new TopicPartition(call[i], Integer.parseInt(call[i + 1]));
      offsets.put(place, new OffsetAndMetadata(Long.parseLong(call[i + 2])));
    }
    return offsets;
  }

  static List<String> poll(KafkaConsumer<byte[], byte[]> consumer, Duration timeout) {
    List<String> found = new ArrayList<>();
    for (ConsumerRecord<byte[], byte[]> each : consumer.poll(timeout)) {
      found.add(each.topic());
      found.add(Integer.toString(each.partition()));
      found.add(Long.toString(each.offset()));
      found.add(Long.toString(each.timestamp()));
      found.add(text(each.key()));
      found.add(text(each.value()));
    }
    return found;
  }

  static String text(byte[] bytes) {
    return bytes == null ? NULL : Base64.getEncoder().encodeToString(bytes);
  }

  /** Return the committed offsets of owned partitions; the library waits while one of them is pending. */
  static List<String> stable(KafkaConsumer<byte[], byte[]> consumer, Duration timeout) {
    List<String> found = new ArrayList<>();
    consumer.committed(consumer.assignment(), timeout).forEach((place, committed) -> {
      found.add(place.topic());
      found.add(Integer.toString(place.partition()));
      found.add(committed == null ? NULL : Long.toString(committed.offset()));
    });
    return found;
  }

  static void fail(String id, Exception error) {
    String message = error.getMessage() + (error.getCause() == null ? "" : ": " + error.getCause());
    answer(id, "error", List.of(error.getClass().getSimpleName(), message.replaceAll("\\s+", " ")));
  }

  static synchronized void answer(String id, String kind, List<String> fields) {
    System.out.print(id + "\t" + kind + (fields.isEmpty() ? "" : "\t" + String.join("\t", fields)) + "\n");
    System.out.flush();
  }
}
