// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requests counts the requests to the API server.
type requests struct {
	next http.RoundTripper
	mu   sync.Mutex
	all  []*url.URL
	// open are watches that have not ended.
	open map[*watching]bool
}

// newCountingClient returns a client with its own connections whose requests are counted.
func newCountingClient(base *rest.Config) (client.WithWatch, *requests, error) {
	counter := &requests{open: map[*watching]bool{}}
	base = rest.CopyConfig(base)
	base.Wrap(func(next http.RoundTripper) http.RoundTripper { counter.next = next; return counter })
	created, err := client.NewWithWatch(base, client.Options{Scheme: scheme, Mapper: admin.RESTMapper()})
	return created, counter, err
}

// RoundTrip implements http.RoundTripper.
func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.all = append(r.all, request.URL)
	r.mu.Unlock()
	response, err := r.next.RoundTrip(request)
	if err != nil || request.URL.Query().Get("watch") == "" || response.StatusCode != http.StatusOK {
		return response, err
	}
	w := &watching{response.Body, r, request.URL}
	response.Body = w
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[w] = true
	return response, nil
}

// watching is the body of a watch's response.
type watching struct {
	io.ReadCloser
	requests *requests
	url      *url.URL
}

// Close implements io.Closer.
func (w *watching) Close() error {
	w.requests.mu.Lock()
	delete(w.requests.open, w)
	w.requests.mu.Unlock()
	return w.ReadCloser.Close()
}

func (r *requests) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

func (r *requests) watches() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// perMinute returns how often the open watches are restarted per minute.
func (r *requests) perMinute() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := 0.0
	for item := range r.open {
		seconds, err := strconv.Atoi(item.url.Query().Get("timeoutSeconds"))
		if err != nil {
			seconds = 1 // missing
		}
		sum += time.Minute.Seconds() / float64(seconds)
	}
	return sum
}

// unselected returns requests for all objects of a kind.
func (r *requests) unselected() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, item := range r.all {
		if query := item.Query(); query.Get("fieldSelector") == "" && query.Get("labelSelector") == "" {
			all = append(all, item.String())
		}
	}
	return all
}
