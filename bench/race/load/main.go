// Load of single records on NATS JetStream, etcd and Redis Streams, each through its own Go client with its defaults,
// on Kafka and raftlog over the Kafka protocol, on connections of its own (kafka.go), and on raftlog over HTTP (http.go).
// kafka and http have only closed and offered; nats and http have create.
//
// load SYSTEM create NAME | delete NAME | leader NAME | closed NAME CONNECTIONS SECONDS BYTES |
// offered NAME RATE SECONDS CONNECTIONS BYTES | bulk NAME RECORDS BYTES | consume NAME RECORDS BYTES | gap NAME SECONDS
//
// BOOTSTRAP has the addresses, separated by commas. Prints one line of JSON; `gap` prints `started` before its load.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	warm       = 3 * time.Second
	attempt    = 500 * time.Millisecond
	retryAfter = 20 * time.Millisecond
	window     = 4096
)

var addresses = strings.Split(os.Getenv("BOOTSTRAP"), ",")

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	check(err)
	return n
}

func report(values map[string]any) {
	check(json.NewEncoder(os.Stdout).Encode(values))
}

// connection is one client connection of a system. put returns when the record is acknowledged; a system that
// recognizes a repeated id stores its record once.
type connection interface {
	put(ctx context.Context, id string, value []byte) error
}

type natsConnection struct {
	js      jetstream.JetStream
	subject string
}

func openNats(name string) *natsConnection {
	c, err := nats.Connect(strings.Join(addresses, ","), nats.MaxReconnects(-1), nats.ReconnectWait(retryAfter))
	check(err)
	js, err := jetstream.New(c, jetstream.WithPublishAsyncMaxPending(window))
	check(err)
	return &natsConnection{js, name + ".x"}
}

func (n *natsConnection) put(ctx context.Context, id string, value []byte) error {
	options := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}
	if id != "" {
		options = append(options, jetstream.WithMsgID(id))
	}
	_, err := n.js.Publish(ctx, n.subject, value, options...)
	return err
}

type etcdConnection struct {
	client *clientv3.Client
	prefix string
}

var keys atomic.Int64

func openEtcd(name string) *etcdConnection {
	c, err := clientv3.New(clientv3.Config{Endpoints: addresses, DialTimeout: 5 * time.Second})
	check(err)
	return &etcdConnection{c, fmt.Sprintf("%s/%d/", name, os.Getpid())}
}

func (e *etcdConnection) put(ctx context.Context, id string, value []byte) error {
	if id == "" {
		id = fmt.Sprintf("%010d", keys.Add(1))
	}
	_, err := e.client.Put(ctx, e.prefix+id, string(value))
	return err
}

type redisConnection struct {
	client *redis.Conn
	stream string
}

func openRedis(name string) *redisConnection {
	client := redis.NewClient(&redis.Options{Addr: addresses[0], PoolSize: 1})
	return &redisConnection{client.Conn(), name}
}

// put appends the record and waits for one replica beside the primary, in one round trip.
func (r *redisConnection) put(ctx context.Context, _ string, value []byte) error {
	pipe := r.client.Pipeline()
	pipe.XAdd(ctx, &redis.XAddArgs{Stream: r.stream, Values: []any{"v", value}})
	waited := pipe.Do(ctx, "WAIT", 1, 2000)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	replicas, err := waited.Int()
	if err == nil && replicas < 1 {
		err = errors.New("no replica has the record")
	}
	return err
}

func open(system, name string) connection {
	switch system {
	case "kafka":
		return openKafka(name)
	case "nats":
		return openNats(name)
	case "etcd":
		return openEtcd(name)
	case "redis":
		return openRedis(name)
	case "http":
		return openHTTP(name)
	}
	check(fmt.Errorf("no system %q", system))
	return nil
}

type latencies struct {
	sync.Mutex
	all    []time.Duration
	failed int
}

func (l *latencies) add(d time.Duration, err error) {
	l.Lock()
	defer l.Unlock()
	if err != nil {
		l.failed++
	} else {
		l.all = append(l.all, d)
	}
}

func (l *latencies) print(seconds int) {
	slices.Sort(l.all)
	at := func(share float64) float64 {
		if len(l.all) == 0 {
			return 0
		}
		return float64(l.all[min(len(l.all)-1, int(float64(len(l.all))*share))]) / 1e6
	}
	perS := float64(len(l.all)) / float64(seconds)
	report(map[string]any{"per_s": perS, "p50": at(.5), "p99": at(.99), "max": at(1), "failed": l.failed})
}

func closed(system, name string, connections, seconds, bytes int) {
	l := &latencies{}
	value := make([]byte, bytes)
	opened := make([]connection, connections)
	for i := range opened {
		opened[i] = open(system, name)
		check(opened[i].put(context.Background(), "", value))
	}
	from := time.Now().Add(warm)
	until := from.Add(time.Duration(seconds) * time.Second)
	var all sync.WaitGroup
	for _, c := range opened {
		all.Go(func() {
			for begin := time.Now(); begin.Before(until); {
				err := c.put(context.Background(), "", value)
				now := time.Now()
				if now.After(from) && now.Before(until) {
					l.add(now.Sub(begin), err)
				}
				begin = now
			}
		})
	}
	all.Wait()
	l.print(seconds)
}

func offered(system, name string, rate, seconds, connections, bytes int) {
	l := &latencies{}
	value := make([]byte, bytes)
	each := rate / connections
	step := time.Second / time.Duration(each)
	start := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for i := range connections {
		c := open(system, name)
		all.Go(func() {
			var answers sync.WaitGroup
			for n := range each * (seconds + int(warm/time.Second)) {
				due := start.Add(step*time.Duration(i)/time.Duration(connections) + step*time.Duration(n))
				time.Sleep(time.Until(due))
				counts := n >= each*int(warm/time.Second)
				answers.Go(func() {
					err := c.put(context.Background(), "", value)
					if counts {
						l.add(time.Since(due), err)
					}
				})
			}
			answers.Wait()
		})
	}
	all.Wait()
	l.print(seconds)
}

func gap(system, name string, seconds int) {
	c := open(system, name)
	value := make([]byte, 100)
	var mutex sync.Mutex
	var longest time.Duration
	check(c.put(context.Background(), "first", value))
	last := time.Now()
	fmt.Println("started")
	start := time.Now()
	var all sync.WaitGroup
	for n := range seconds * 100 {
		time.Sleep(time.Until(start.Add(time.Duration(n) * 10 * time.Millisecond)))
		all.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(context.Background(), attempt)
				err := c.put(ctx, fmt.Sprintf("%d-%d", os.Getpid(), n), value)
				cancel()
				if err == nil {
					break
				}
				time.Sleep(retryAfter)
			}
			mutex.Lock()
			defer mutex.Unlock()
			longest = max(longest, time.Since(last))
			last = time.Now()
		})
	}
	all.Wait()
	report(map[string]any{"gap_ms": float64(longest) / 1e6, "failed": 0})
}

// bulk publishes through two connections, each with a window of unanswered records; etcd and Redis have no window, so
// they get as many concurrent callers instead.
func bulk(system, name string, records, bytes int) {
	value := make([]byte, bytes)
	begin := time.Now()
	var all sync.WaitGroup
	if system == "nats" {
		for range 2 {
			n := openNats(name)
			all.Go(func() {
				for range records / 2 {
					_, err := n.js.PublishAsync(n.subject, value)
					for err != nil {
						time.Sleep(time.Millisecond)
						_, err = n.js.PublishAsync(n.subject, value)
					}
				}
				<-n.js.PublishAsyncComplete()
			})
		}
	} else {
		var sent atomic.Int64
		for range 256 {
			c := open(system, name)
			all.Go(func() {
				for sent.Add(1) <= int64(records) {
					check(c.put(context.Background(), "", value))
				}
			})
		}
	}
	all.Wait()
	mib(records, bytes, begin)
}

func mib(records, bytes int, begin time.Time) {
	report(map[string]any{"mib_per_s": float64(records*bytes) / (1 << 20) / time.Since(begin).Seconds(), "failed": 0})
}

func consume(name string, records, bytes int) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	begin := time.Now()
	stream, err := openNats(name).js.Stream(ctx, name)
	check(err)
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	check(err)
	done := make(chan struct{})
	read := 0
	reading, err := consumer.Consume(func(jetstream.Msg) {
		if read++; read == records {
			close(done)
		}
	}, jetstream.PullMaxMessages(2*window))
	check(err)
	defer reading.Stop()
	select {
	case <-done:
		mib(records, bytes, begin)
	case <-ctx.Done():
		check(fmt.Errorf("%d of %d records were read", read, records))
	}
}

func create(system, name string) {
	if system == "http" {
		createTopic(name)
		return
	}
	n := openNats(name)
	config := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Replicas: 3}
	var err error
	for until := time.Now().Add(60 * time.Second); time.Now().Before(until); time.Sleep(retryAfter) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		_, err = n.js.CreateStream(ctx, config)
		cancel()
		if err == nil {
			return
		}
	}
	check(err)
}

func leader(system, name string) {
	ctx := context.Background()
	if system == "nats" {
		stream, err := openNats(name).js.Stream(ctx, name)
		check(err)
		info, err := stream.Info(ctx)
		check(err)
		report(map[string]any{"leader": info.Cluster.Leader})
		return
	}
	e := openEtcd(name)
	for i, address := range addresses {
		status, err := e.client.Status(ctx, address)
		check(err)
		if status.Leader == status.Header.MemberId {
			report(map[string]any{"leader": fmt.Sprint("n", i+1)})
			return
		}
	}
	check(errors.New("no leader"))
}

func main() {
	system, name := os.Args[1], os.Args[3]
	switch os.Args[2] {
	case "create":
		create(system, name)
	case "delete":
		check(openNats(name).js.DeleteStream(context.Background(), name))
	case "leader":
		leader(system, name)
	case "closed":
		closed(system, name, number(4), number(5), number(6))
	case "offered":
		offered(system, name, number(4), number(5), number(6), number(7))
	case "bulk":
		bulk(system, name, number(4), number(5))
	case "consume":
		consume(name, number(4), number(5))
	case "gap":
		gap(system, name, number(4))
	default:
		check(fmt.Errorf("no load %q", os.Args[2]))
	}
}
