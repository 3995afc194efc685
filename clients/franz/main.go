// Checks of franz-go: admin TOPIC | load TOPIC | logins TOPIC, with the brokers of BOOTSTRAP.
//
// If MECHANISM is set, all clients use TLS and log in, with CA, LOGIN and PASSWORD; `logins` also needs WRONG_CA.
//
// `load` prints `started`, works until stdin ends, and then checks that every acknowledged record is stored once, in
// order, and was delivered to a group of three cooperative members.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	partitions = 6
	members    = 3
	perS       = 500
)

var brokers = kgo.SeedBrokers(strings.Split(os.Getenv("BOOTSTRAP"), ",")...)

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(text string, given ...any) {
	fmt.Fprintf(os.Stderr, text+"\n", given...)
	os.Exit(1)
}

func open(options ...kgo.Opt) *kgo.Client {
	if mechanism := os.Getenv("MECHANISM"); mechanism != "" {
		options = append(login(mechanism, os.Getenv("LOGIN"), os.Getenv("PASSWORD"), os.Getenv("CA")), options...)
	}
	return connect(options)
}

func connect(options []kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, brokers)...)
	check(err)
	return client
}

// login returns the options of a client that uses TLS and logs in.
func login(mechanism, user, password, authority string) []kgo.Opt {
	pem, err := os.ReadFile(authority)
	check(err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		fail("no certificate in %s", authority)
	}
	var given sasl.Mechanism
	switch mechanism {
	case "PLAIN":
		given = plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		given = scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		given = scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		fail("no mechanism %q", mechanism)
	}
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(given)}
}

// logins writes and reads a record with each mechanism, and checks that wrong passwords, users and authorities fail.
func logins(topic string) {
	admin := open()
	defer admin.Close()
	created, err := kadm.NewClient(admin).CreateTopic(context.Background(), 1, 3, nil, topic)
	check(err)
	check(created.Err)
	waitPartitions(context.Background(), kadm.NewClient(admin), topic, 1)
	user, password, authority := os.Getenv("LOGIN"), os.Getenv("PASSWORD"), os.Getenv("CA")
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	mechanisms := []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
	for i, mechanism := range mechanisms {
		at := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(int64(i))}}
		client := connect(append(login(mechanism, user, password, authority), kgo.ConsumePartitions(at)))
		check(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(mechanism)}).FirstErr())
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		records := fetches.Records()
		if len(records) != 1 || string(records[0].Value) != mechanism || records[0].Offset != int64(i) {
			fail("with %s: %v", mechanism, records)
		}
		client.Close()
		for _, wrong := range [][]kgo.Opt{
			login(mechanism, user, "wrong", authority),
			login(mechanism, "nobody", password, authority),
		} {
			if err := ping(ctx, wrong); !errors.Is(err, kerr.SaslAuthenticationFailed) {
				fail("%s with a wrong login: %v", mechanism, err)
			}
		}
		var unknown x509.UnknownAuthorityError
		if err := ping(ctx, login(mechanism, user, password, os.Getenv("WRONG_CA"))); !errors.As(err, &unknown) {
			fail("%s with another authority: %v", mechanism, err)
		}
	}
	fmt.Println(strings.Join(mechanisms, ", ") + "; wrong password, unknown user and wrong authority refused")
}

// ping returns the error of a request by a client with these options.
func ping(ctx context.Context, options []kgo.Opt) error {
	client := connect(options)
	defer client.Close()
	return client.Ping(ctx)
}

func admin(topic string) {
	ctx := context.Background()
	client := open()
	defer client.Close()
	a := kadm.NewClient(client)
	retention := "3600000"
	created, err := a.CreateTopic(ctx, 3, 3, map[string]*string{"retention.ms": &retention}, topic)
	check(err)
	check(created.Err)
	grown, err := a.CreatePartitions(ctx, 2, topic)
	check(err)
	check(grown.Error())
	waitPartitions(ctx, a, topic, 5)
	compact := "compact"
	altered, err := a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &compact}}, topic)
	check(err)
	_, err = altered.On(topic, nil)
	check(err)
	for range 10 {
		check(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}).FirstErr())
	}
	ends, err := a.ListEndOffsets(ctx, topic)
	check(err)
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { check(o.Err); total += o.Offset })
	if total != 10 {
		fail("end offsets sum to %d", total)
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, 7, 1)
	check(a.CommitAllOffsets(ctx, "franz-admin", offsets))
	fetched, err := a.FetchOffsets(ctx, "franz-admin")
	check(err)
	if at, ok := fetched.Lookup(topic, 0); !ok || at.At != 7 {
		fail("committed offset %v", at)
	}
	groups, err := a.ListGroups(ctx)
	check(err)
	if _, ok := groups["franz-admin"]; !ok {
		fail("the group is not listed")
	}
	_, err = a.DeleteGroup(ctx, "franz-admin")
	check(err)
	_, err = a.DescribeAllLogDirs(ctx, nil)
	check(err)
	_, err = a.DeleteTopic(ctx, topic)
	check(err)
	fmt.Println("topics, partitions, configurations, offsets, groups, log directories")
}

func waitPartitions(ctx context.Context, a *kadm.Client, topic string, count int) {
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		listed, err := a.ListTopics(ctx, topic)
		check(err)
		led := 0
		for _, partition := range listed[topic].Partitions {
			if partition.Err == nil && partition.Leader > 0 {
				led++
			}
		}
		if led == count {
			return
		}
		if time.Now().After(until) {
			fail("%d of %d partitions have a leader", led, count)
		}
	}
}

type place struct {
	partition int32
	offset    int64
}

type history struct {
	sync.Mutex
	acked, read map[place]string
	deliveries  int
	last        time.Time
	longest     time.Duration
}

func (h *history) consume(ctx context.Context, topic string, ended *sync.WaitGroup) {
	defer ended.Done()
	client := open(kgo.ConsumerGroup("group-"+topic), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		h.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			h.deliveries++
			at := place{r.Partition, r.Offset}
			if before, ok := h.read[at]; ok && before != string(r.Value) {
				fail("two values at %v", at)
			}
			h.read[at] = string(r.Value)
		})
		h.Unlock()
		fetches.EachError(func(_ string, partition int32, err error) {
			// The end of a group session is no failure: the client joins again by itself.
			var session *kgo.ErrGroupSession
			if ctx.Err() == nil && !errors.As(err, &session) {
				fail("fetch of partition %d: %v", partition, err)
			}
		})
	}
}

func load(topic string) {
	client := open(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	a := kadm.NewClient(client)
	created, err := a.CreateTopic(context.Background(), partitions, 3, nil, topic)
	check(err)
	check(created.Err)
	waitPartitions(context.Background(), a, topic, partitions)
	h := &history{acked: map[place]string{}, read: map[place]string{}, last: time.Now()}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for range members {
		ended.Add(1)
		go h.consume(ctx, topic, &ended)
	}
	stdin := make(chan struct{})
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		check(err)
		close(stdin)
	}()
	sent := h.produce(client, topic, stdin)
	check(client.Flush(context.Background()))
	for until := time.Now().Add(60 * time.Second); h.missing() > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			fail("%d acknowledged records were not read", h.missing())
		}
	}
	stop()
	ended.Wait()
	client.Close()
	h.verify(sent)
	fmt.Printf("%d records, each once and in order; %d deliveries; longest gap %.2f s\n", sent, h.deliveries, h.longest.Seconds())
}

func (h *history) produce(client *kgo.Client, topic string, stdin chan struct{}) int {
	start := time.Now()
	for sent := 0; ; sent++ {
		select {
		case <-stdin:
			return sent
		case <-time.After(time.Until(start.Add(time.Duration(sent) * time.Second / perS))):
		}
		record := &kgo.Record{Topic: topic, Partition: int32(sent % partitions), Value: []byte(strconv.Itoa(sent))}
		client.Produce(context.Background(), record, func(r *kgo.Record, err error) {
			check(err)
			h.Lock()
			defer h.Unlock()
			h.acked[place{r.Partition, r.Offset}] = string(r.Value)
			h.longest = max(h.longest, time.Since(h.last))
			h.last = time.Now()
		})
		if sent == perS {
			h.Lock()
			h.longest = 0
			h.Unlock()
			fmt.Println("started")
		}
	}
}

func (h *history) missing() int {
	h.Lock()
	defer h.Unlock()
	count := 0
	for at := range h.acked {
		if _, ok := h.read[at]; !ok {
			count++
		}
	}
	return count
}

func (h *history) verify(sent int) {
	if len(h.acked) != sent {
		fail("%d of %d records were acknowledged", len(h.acked), sent)
	}
	for at, value := range h.acked {
		if h.read[at] != value {
			fail("%v has %q, not %q", at, h.read[at], value)
		}
	}
	for partition := range int32(partitions) {
		before := -1
		for offset := int64(0); ; offset++ {
			value, ok := h.read[place{partition, offset}]
			if !ok {
				break
			}
			number, err := strconv.Atoi(value)
			check(err)
			if number <= before {
				fail("partition %d: %d behind %d", partition, number, before)
			}
			before = number
		}
	}
}

func main() {
	switch os.Args[1] {
	case "admin":
		admin(os.Args[2])
	case "load":
		load(os.Args[2])
	case "logins":
		logins(os.Args[2])
	default:
		fail("no check %q", os.Args[1])
	}
}
