// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// floodFor is how long unknown clients send tokens, and maxReviews the limit of reviews during that time: a burst, 10
// per second, and some for good tokens.
const (
	floodFor   = 3 * time.Second
	maxReviews = 50 + 10*int(floodFor/time.Second) + 40
)

// clientFrom returns a client that connects from an address.
func clientFrom(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 16}, Timeout: 10 * time.Second}
}

// ask lists the clusters, and returns the status.
func (r *running) ask(by *http.Client, token string) int {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.address+"/api/v1/clusters", http.NoBody)
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := by.Do(request)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// flood sends bad tokens from an address until stop is closed, and returns the number of responses by status.
func (r *running) flood(address string, stop <-chan struct{}) map[int]int {
	var (
		mu       sync.Mutex
		statuses = map[int]int{}
		senders  sync.WaitGroup
		by       = clientFrom(address)
	)
	for range 16 {
		senders.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				status := r.ask(by, strings.ToLower(rand.Text())+"."+rand.Text()+"."+rand.Text())
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	return statuses
}

func TestFloodOfBadTokensBlocksNoOthers(t *testing.T) {
	f, counting := startCounted(t)
	known := newUser(t, newNamespace(t), nil, seesClusters)
	var others []string
	for range 5 {
		others = append(others, newUser(t, newNamespace(t), nil, []rbacv1.PolicyRule{seesClusters[0]}))
	}
	behind, elsewhere := clientFrom("127.0.0.2"), clientFrom("127.0.0.3")
	if status := f.ask(behind, known); status != http.StatusOK {
		t.Fatalf("before the flood: %d", status)
	}
	stop, flooded := make(chan struct{}), make(chan map[int]int)
	var longest time.Duration
	seen := counting.during(func() {
		go func() { flooded <- f.flood("127.0.0.2", stop) }()
		for end := time.Now().Add(floodFor); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			began := time.Now()
			if status := f.ask(behind, known); status != http.StatusOK {
				t.Errorf("a client at the address of the flood, whose token was good before, gets %d", status)
			}
			if len(others) > 0 {
				if status := f.ask(elsewhere, others[0]); status != http.StatusOK {
					t.Errorf("a new client of another address gets %d", status)
				}
				others = others[1:]
			}
			longest = max(longest, time.Since(began))
		}
		close(stop)
	})
	statuses, reviews := <-flooded, 0
	for _, name := range seen {
		if name == asksFor[0] {
			reviews++
		}
	}
	t.Logf("answers to strangers %v, the hub was asked for %d tokens, others waited for %v at most", statuses, reviews, longest)
	if reviews > maxReviews {
		t.Errorf("the hub was asked for %d tokens in %v, want %d at most", reviews, floodFor, maxReviews)
	}
	if statuses[http.StatusTooManyRequests] == 0 {
		t.Errorf("no stranger was told to wait: %v", statuses)
	}
}
