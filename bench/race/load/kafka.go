package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	produceVersion = 8
	answerBytesMax = 1 << 16
	attemptsMax    = 100
	batchCrcAt     = 17
	batchCheckedAt = 21
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kafkaConnection sends every record in a batch and a request of its own to the leader of partition 0: a producer with
// its buffers, timers and compression takes as much of the CPUs as the brokers, and then their speed is not measured.
// Requests on a connection are pipelined. After a change of the leader a record is sent again.
type kafkaConnection struct {
	topic   string
	mutex   sync.Mutex
	request *kmsg.ProduceRequest
	frame   []byte
	wire    *wire
}

func openKafka(name string) *kafkaConnection {
	return &kafkaConnection{topic: name}
}

func (k *kafkaConnection) put(ctx context.Context, _ string, value []byte) error {
	var err error
	for range attemptsMax {
		var sent *pending
		if sent, err = k.send(ctx, value); err == nil {
			if err = <-sent.done; err == nil || !isRetriable(err) {
				return err
			}
			k.drop(sent.wire)
		}
		time.Sleep(retryAfter)
	}
	return err
}

func isRetriable(err error) bool {
	var reported *kerr.Error
	return !errors.As(err, &reported) || reported.Retriable
}

// pending is a request that was sent on a wire and not yet answered.
type pending struct {
	wire *wire
	done chan error
}

func (k *kafkaConnection) send(ctx context.Context, value []byte) (*pending, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.frame == nil {
		k.request = produceRequest(k.topic, value)
		k.frame = kmsg.NewRequestFormatter(kmsg.FormatterClientID("load")).AppendRequest(nil, k.request, 1)
	}
	if k.wire == nil {
		w, err := dial(ctx, k.topic, k.request)
		if err != nil {
			return nil, err
		}
		k.wire = w
	}
	sent := &pending{k.wire, make(chan error, 1)}
	k.wire.waiting <- sent.done
	if _, err := k.wire.Write(k.frame); err != nil {
		k.wire.Close() // the reader reports the error
	}
	return sent, nil
}

func (k *kafkaConnection) drop(w *wire) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.wire == w {
		w.Close()
		k.wire = nil
	}
}

// wire is a connection to a leader; its answers come in the order of the requests.
type wire struct {
	net.Conn
	waiting chan chan error
}

func dial(ctx context.Context, topic string, request *kmsg.ProduceRequest) (*wire, error) {
	address, err := leaderAddress(ctx, topic)
	if err != nil {
		return nil, err
	}
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	w := &wire{connection, make(chan chan error, window)}
	go w.readAnswers(request)
	return w, nil
}

func (w *wire) readAnswers(request *kmsg.ProduceRequest) {
	reader := bufio.NewReader(w)
	for done := range w.waiting {
		done <- readAnswer(reader, request)
	}
}

func readAnswer(reader io.Reader, request *kmsg.ProduceRequest) error {
	var size [4]byte
	if _, err := io.ReadFull(reader, size[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(size[:])
	if length < 4 || length > answerBytesMax {
		return fmt.Errorf("an answer of %d bytes", length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(reader, body); err != nil {
		return err
	}
	answer := request.ResponseKind().(*kmsg.ProduceResponse)
	if err := answer.ReadFrom(body[4:]); err != nil {
		return err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return errors.New("an answer without the partition")
	}
	return kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
}

func leaderAddress(ctx context.Context, topic string) (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...))
	if err != nil {
		return "", err
	}
	defer client.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(topic)}}
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return "", err
	}
	for _, found := range answer.Topics {
		for _, partition := range found.Partitions {
			for _, broker := range answer.Brokers {
				if partition.Partition == 0 && broker.NodeID == partition.Leader {
					return net.JoinHostPort(broker.Host, fmt.Sprint(broker.Port)), nil
				}
			}
		}
	}
	return "", kerr.LeaderNotAvailable
}

func produceRequest(topic string, value []byte) *kmsg.ProduceRequest {
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = batchOf(value)
	produced := kmsg.NewProduceRequestTopic()
	produced.Topic, produced.Partitions = topic, []kmsg.ProduceRequestTopicPartition{partition}
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks, request.TimeoutMillis = produceVersion, -1, 10_000
	request.Topics = []kmsg.ProduceRequestTopic{produced}
	return request
}

// batchOf returns a batch (message format 2) with one record, without a key, that is not compressed.
func batchOf(value []byte) []byte {
	record := kmsg.NewRecord()
	record.Value = value
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	now := time.Now().UnixMilli()
	batch := kmsg.NewRecordBatch()
	batch.PartitionLeaderEpoch, batch.Magic, batch.NumRecords = -1, 2, 1
	batch.FirstTimestamp, batch.MaxTimestamp = now, now
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = -1, -1, -1
	batch.Records = record.AppendTo(nil)
	packed := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(packed[8:], uint32(len(packed)-12))
	binary.BigEndian.PutUint32(packed[batchCrcAt:], crc32.Checksum(packed[batchCheckedAt:], castagnoli))
	return packed
}
