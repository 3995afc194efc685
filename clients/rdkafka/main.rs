//! Checks of rust-rdkafka: `load TOPIC`, with the brokers of BOOTSTRAP.
//!
//! It prints `started`, works until stdin ends, and then checks that every acknowledged record is stored once, in
//! order, and was delivered to a group of three cooperative members.

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use std::collections::HashMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PARTITIONS: i32 = 6;
const MEMBERS: usize = 3;
const PER_S: u64 = 500;

type Place = (i32, i64);

#[derive(Default)]
struct History {
    acked: HashMap<Place, String>,
    read: HashMap<Place, String>,
    deliveries: usize,
    last: Option<Instant>,
    longest: Duration,
}

struct Answers(Arc<Mutex<History>>);

impl ClientContext for Answers {}

impl ProducerContext for Answers {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        let message = match result {
            Ok(message) => message,
            Err((error, _)) => fail(&format!("a record failed: {error}")),
        };
        let mut history = self.0.lock().unwrap();
        let value = String::from_utf8_lossy(message.payload().unwrap()).into_owned();
        history.acked.insert((message.partition(), message.offset()), value);
        if let Some(last) = history.last.replace(Instant::now()) {
            history.longest = history.longest.max(last.elapsed());
        }
    }
}

fn fail(problem: &str) -> ! {
    eprintln!("{problem}");
    std::process::exit(1)
}

fn config() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", std::env::var("BOOTSTRAP").unwrap());
    config
}

fn create(topic: &str) {
    let admin: AdminClient<DefaultClientContext> = config().create().unwrap();
    let wanted = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(3));
    let created = futures::executor::block_on(admin.create_topics(&[wanted], &AdminOptions::new())).unwrap();
    if let Err((_, error)) = &created[0] {
        fail(&format!("the topic was not created: {error}"));
    }
}

fn consume(topic: &str, history: &Mutex<History>, is_ended: &AtomicBool) {
    let consumer: BaseConsumer = config()
        .set("group.id", format!("group-{topic}"))
        .set("auto.offset.reset", "earliest")
        .set("topic.metadata.refresh.interval.ms", "1000")
        .set("partition.assignment.strategy", "cooperative-sticky")
        .create()
        .unwrap();
    consumer.subscribe(&[topic]).unwrap();
    while !is_ended.load(Ordering::Relaxed) {
        // Errors tell of lost connections; librdkafka connects again.
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            let mut history = history.lock().unwrap();
            history.deliveries += 1;
            let value = String::from_utf8_lossy(message.payload().unwrap()).into_owned();
            let at = (message.partition(), message.offset());
            if let Some(before) = history.read.insert(at, value.clone()) {
                if before != value {
                    fail(&format!("two values at {at:?}"));
                }
            }
        }
    }
}

fn produce(topic: &str, history: &Arc<Mutex<History>>, is_ending: &AtomicBool) -> u64 {
    let producer: ThreadedProducer<Answers> =
        config().set("enable.idempotence", "true").create_with_context(Answers(history.clone())).unwrap();
    let begin = Instant::now();
    let mut sent = 0;
    while !is_ending.load(Ordering::Relaxed) {
        let due = begin + Duration::from_millis(sent * 1000 / PER_S);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let value = sent.to_string();
        let partition = (sent % PARTITIONS as u64) as i32;
        let record = BaseRecord::<(), String>::to(topic).partition(partition).payload(&value);
        if let Err((error, _)) = producer.send(record) {
            fail(&format!("a record was not sent: {error}"));
        }
        sent += 1;
        if sent == PER_S {
            history.lock().unwrap().longest = Duration::ZERO;
            println!("started");
        }
    }
    producer.flush(Duration::from_secs(60)).unwrap();
    sent
}

fn verify(history: &History, sent: u64) {
    if history.acked.len() as u64 != sent {
        fail(&format!("{} of {sent} records were acknowledged", history.acked.len()));
    }
    for (at, value) in &history.acked {
        if history.read.get(at) != Some(value) {
            fail(&format!("{at:?} has {:?}, not {value}", history.read.get(at)));
        }
    }
    for partition in 0..PARTITIONS {
        let mut before = -1;
        for offset in 0.. {
            let Some(value) = history.read.get(&(partition, offset)) else { break };
            let number: i64 = value.parse().unwrap();
            if number <= before {
                fail(&format!("partition {partition}: {number} behind {before}"));
            }
            before = number;
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments[1] != "load" {
        fail(&format!("no check {}", arguments[1]));
    }
    let topic = arguments[2].clone();
    create(&topic);
    let history = Arc::new(Mutex::new(History::default()));
    let is_ending = Arc::new(AtomicBool::new(false));
    let is_ended = Arc::new(AtomicBool::new(false));
    let members: Vec<_> = (0..MEMBERS)
        .map(|_| {
            let (topic, history, is_ended) = (topic.clone(), history.clone(), is_ended.clone());
            thread::spawn(move || consume(&topic, &history, &is_ended))
        })
        .collect();
    let ending = is_ending.clone();
    thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        ending.store(true, Ordering::Relaxed);
    });
    let sent = produce(&topic, &history, &is_ending);
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let history = history.lock().unwrap();
        let missing = history.acked.keys().filter(|at| !history.read.contains_key(at)).count();
        drop(history);
        if missing == 0 {
            break;
        }
        if Instant::now() > until {
            fail(&format!("{missing} acknowledged records were not read"));
        }
        thread::sleep(Duration::from_millis(100));
    }
    is_ended.store(true, Ordering::Relaxed);
    for member in members {
        member.join().unwrap();
    }
    let history = history.lock().unwrap();
    verify(&history, sent);
    let gap = history.longest.as_secs_f64();
    println!("{sent} records, each once and in order; {} deliveries; longest gap {gap:.2} s", history.deliveries);
}
