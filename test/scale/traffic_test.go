// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// traffic is what an agent exchanges with the API server: requests count that were answered.
type traffic struct {
	// asked are those that are neither reports nor watches, which come to an end and are asked for again.
	requests, asked, sent, received atomic.Int64
	all                             *ledger
}

// ledger is what all agents of the process ask for.
type ledger struct {
	mu sync.Mutex
	// byKind counts requests, such as "WATCH /apis/kubernetsn.io/v1alpha1/tsnnodes".
	byKind map[string]int64
	// bySecond counts those that began in a second of the process's clock.
	bySecond map[int64]int64
	// reports are how long the writes of a status took.
	reports []time.Duration
	refused int64
}

var book = &ledger{byKind: map[string]int64{}, bySecond: map[int64]int64{}}

// count is the configuration of an agent in its pod, with a connection of its own whose traffic is counted.
func (t *traffic) count(server *rest.Config, token string) *rest.Config {
	t.all = book
	config := rest.CopyConfig(server)
	config.BearerToken = token
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn, counters: t}, nil
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countedTransport{next, t} })
	return config
}

type countedConn struct {
	net.Conn
	counters *traffic
}

func (c *countedConn) Read(b []byte) (int, error) {
	count, err := c.Conn.Read(b)
	c.counters.received.Add(int64(count))
	return count, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	count, err := c.Conn.Write(b)
	c.counters.sent.Add(int64(count))
	return count, err
}

type countedTransport struct {
	next     http.RoundTripper
	counters *traffic
}

func (c *countedTransport) RoundTrip(asked *http.Request) (*http.Response, error) {
	began := time.Now()
	reply, err := c.next.RoundTrip(asked)
	if err != nil {
		return nil, err // it may never have reached the API server
	}
	c.counters.requests.Add(1)
	if !isWatch(asked) && !isReport(asked) {
		c.counters.asked.Add(1)
	}
	c.counters.all.note(asked, reply.StatusCode, began)
	return reply, nil
}

func (l *ledger) note(asked *http.Request, status int, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byKind[kind(asked)]++
	l.bySecond[began.Unix()]++
	if isReport(asked) && status < http.StatusBadRequest {
		l.reports = append(l.reports, time.Since(began))
	}
	if status == http.StatusTooManyRequests {
		l.refused++
	}
}

func isWatch(asked *http.Request) bool { return asked.URL.Query().Get("watch") != "" }

func isReport(asked *http.Request) bool {
	return asked.Method != http.MethodGet && strings.HasSuffix(asked.URL.Path, "/status")
}

// kind is a request without the name of what it is about.
func kind(asked *http.Request) string {
	verb := asked.Method
	if isWatch(asked) {
		verb = "WATCH"
	}
	parts := strings.Split(strings.Trim(asked.URL.Path, "/"), "/")
	var kept []string
	for i, part := range parts {
		// /api/v1/nodes/NAME, /apis/GROUP/VERSION/KIND/NAME/status, /api/v1/namespaces/NAME/events/NAME
		if i > 0 && (parts[i-1] == "namespaces" || isKind(parts, i-1)) {
			part = "NAME"
		}
		kept = append(kept, part)
	}
	return verb + " /" + strings.Join(kept, "/")
}

func isKind(parts []string, at int) bool {
	switch parts[at] {
	case "nodes", "pods", "events", "tsnnetworks", "tsnnodes", "tsnpeers":
		return true
	}
	return false
}
