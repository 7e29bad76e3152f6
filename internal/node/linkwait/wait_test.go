// SPDX-License-Identifier: Apache-2.0

package linkwait

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// text is what is written, for two goroutines.
type text struct {
	mu  sync.Mutex
	all strings.Builder
}

func (w *text) Write(bytes []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(bytes)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+"~", []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// await waits until something was said.
func await(t *testing.T, out *text, sentence string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(out.String(), sentence); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not say %q: %s", sentence, out)
		}
	}
}

func TestItWaitsForAllLinksAndSaysWhatIsMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "links") // which is not there yet
	out := &text{}
	ended := make(chan error, 1)
	go func() { ended <- Wait(t.Context(), dir, []string{"up0", "up1"}, out) }()
	await(t, out, "up1: waiting: nobody has made a link yet")
	write(t, filepath.Join(dir, "up1.waiting"), "link to service shop: not plugged: no sandbox\n")
	await(t, out, "up1: waiting: link to service shop: not plugged: no sandbox\n")
	write(t, filepath.Join(dir, "up0"), `{"interface":"up0","service":"shop","addresses":["10.200.5.0/31"],"peer":{"addresses":["10.200.5.1"],"namespace":"default","pod":"b"},"mtu":1450}`)
	await(t, out, "up0: up: service shop, 10.200.5.0/31 to 10.200.5.1 (pod default/b), MTU 1450\n")
	select {
	case err := <-ended:
		t.Fatalf("it ended although up1 is missing: %v", err)
	case <-time.After(3 * every):
	}
	write(t, filepath.Join(dir, "up1"), "{}")
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("it goes on: %s", out)
	}
	if count := strings.Count(out.String(), "nobody has made a link yet"); count != 2 {
		t.Errorf("it said %d times that nobody has made the two links", count)
	}
}

func TestItEndsWithAnErrorWhenItIsEndedBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Wait(ctx, t.TempDir(), []string{"up0"}, &text{}); err == nil || err.Error() != "ended while 1 of 1 links were not up" {
		t.Errorf("it says %v", err)
	}
}

func TestNamesThatLeaveTheFolderAreRefused(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../app.sock"} {
		if err := Wait(t.Context(), t.TempDir(), []string{name}, &text{}); err == nil || !strings.Contains(err.Error(), "is no name of an interface") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
