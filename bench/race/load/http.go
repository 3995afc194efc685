package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

const (
	jsonType     = "application/json"
	leaderHeader = "X-Raftlog-Leader"
	partitions   = "/partitions/0"
)

// httpConnection sends every record in a POST of its own to the leader of partition 0, which the first answer names.
// Overlapping requests use further connections, because HTTP/1.1 has one answer at a time.
type httpConnection struct {
	client *http.Client
	topic  string
	body   []byte
	leader atomic.Pointer[string]
}

func openHTTP(name string) *httpConnection {
	h := &httpConnection{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: window}},
		topic:  name,
	}
	h.leader.Store(&addresses[0])
	return h
}

func (h *httpConnection) put(ctx context.Context, _ string, value []byte) error {
	if h.body == nil {
		h.body = fmt.Appendf(nil, `{"records":[{"value":"%s"}]}`, strings.Repeat("x", len(value)))
	}
	leader, err := h.post(ctx, *h.leader.Load(), "/topics/"+h.topic+partitions, h.body)
	if leader != "" {
		h.leader.Store(&leader)
	}
	return err
}

// post returns the address of the leader if another broker has answered.
func (h *httpConnection) post(ctx context.Context, address, path string, body []byte) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", jsonType)
	answer, err := h.client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return answer.Header.Get(leaderHeader), err
}

func createTopic(name string) {
	body, err := json.Marshal(map[string]any{"topic_name": name, "partitions_count": 1, "replication_factor": 3})
	check(err)
	_, err = openHTTP(name).post(context.Background(), addresses[0], "/v3/clusters/-/topics", body)
	check(err)
}
