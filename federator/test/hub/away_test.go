// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestStartWithoutHub(t *testing.T) {
	// A port without a listener.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	f := startFederatorOf(t, &rest.Config{Host: "https://" + listener.Addr().String()})
	f.refused("some", "GET", "/api/v1/clusters", nil, http.StatusServiceUnavailable, "the hub does not answer; ask again when it does", "refused")
	if status, _ := f.call("", "GET", "/openapi.json", nil, nil); status != http.StatusOK {
		t.Errorf("the document has status %d", status)
	}
	// Nobody else could report it.
	if status, text := f.probe("/readyz"); status != http.StatusOK {
		t.Errorf("it is not ready: %d %s", status, text)
	}
	eventually(t, "the log says what the controllers wait for", func() bool { return strings.Contains(f.log.String(), "the controllers wait for the hub") })
}

// probe sends a request like kubelet.
func (r *running) probe(path string) (status int, reported string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.address+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// slow is a hub that sends nothing of one kind until it is released.
type slow struct {
	http.RoundTripper

	kind     string
	asked    func()
	released chan struct{}
}

// RoundTrip sends a request, possibly delayed.
func (s slow) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasSuffix(request.URL.Path, "/"+s.kind) {
		s.asked()
		select {
		case <-s.released:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	return s.RoundTripper.RoundTrip(request)
}

func TestReadyAfterHubWasRead(t *testing.T) {
	needHub(t)
	asked, released := make(chan struct{}), make(chan struct{})
	ask, release := sync.OnceFunc(func() { close(asked) }), sync.OnceFunc(func() { close(released) })
	from := rest.CopyConfig(config)
	from.Wrap(func(to http.RoundTripper) http.RoundTripper { return slow{to, "tsnlinks", ask, released} })
	f := startFederatorOf(t, from)
	t.Cleanup(release)
	select {
	case <-asked:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not read the links")
	}
	if status, text := f.probe("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "has not read the hub yet") {
		t.Errorf("it has not read the links and is ready: %d %s", status, text)
	}
	if status, text := f.probe("/healthz"); status != http.StatusOK {
		t.Errorf("it is not alive: %d %s", status, text)
	}
	release()
	eventually(t, "it is ready", func() bool { status, _ := f.probe("/readyz"); return status == http.StatusOK })
	f.must(newAdmin(t), "GET", "/api/v1/workloads", nil, nil)
}
