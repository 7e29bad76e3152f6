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

// requests counts what is asked of the API server.
type requests struct {
	next http.RoundTripper
	mu   sync.Mutex
	all  []*url.URL
	// open are watches that have not ended.
	open map[*watching]bool
}

// counted is a client of its own, with connections of its own, whose requests are counted.
func counted(of *rest.Config) (client.WithWatch, *requests, error) {
	counter := &requests{open: map[*watching]bool{}}
	of = rest.CopyConfig(of)
	of.Wrap(func(next http.RoundTripper) http.RoundTripper { counter.next = next; return counter })
	made, err := client.NewWithWatch(of, client.Options{Scheme: scheme, Mapper: admin.RESTMapper()})
	return made, counter, err
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
	one := &watching{response.Body, r, request.URL}
	response.Body = one
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[one] = true
	return response, nil
}

// watching is the body of a watch's response.
type watching struct {
	io.ReadCloser
	of  *requests
	url *url.URL
}

// Close implements io.Closer.
func (w *watching) Close() error {
	w.of.mu.Lock()
	delete(w.of.open, w)
	w.of.mu.Unlock()
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

// perMinute is how often the open watches are begun anew.
func (r *requests) perMinute() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := 0.0
	for one := range r.open {
		seconds, err := strconv.Atoi(one.url.Query().Get("timeoutSeconds"))
		if err != nil {
			seconds = 1 // one without is no good
		}
		sum += time.Minute.Seconds() / float64(seconds)
	}
	return sum
}

// unselected are requests for all objects of a kind.
func (r *requests) unselected() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, one := range r.all {
		if query := one.Query(); query.Get("fieldSelector") == "" && query.Get("labelSelector") == "" {
			all = append(all, one.String())
		}
	}
	return all
}
