// SPDX-License-Identifier: Apache-2.0

package linkwait

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
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
	testlab.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testlab.Must(t, os.WriteFile(path+"~", []byte(content), 0o644))
	testlab.Must(t, os.Rename(path+"~", path))
}

// await waits until something was said.
func await(t *testing.T, out *text, sentence string) {
	t.Helper()
	testlab.Eventually(t, 20*time.Second, time.Millisecond, func() error {
		if !strings.Contains(out.String(), sentence) {
			return fmt.Errorf("it does not say %q: %s", sentence, out)
		}
		return nil
	})
}

func TestWait(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "links") // which is not there yet
	out := &text{}
	ended := make(chan error, 1)
	go func() { ended <- Wait(t.Context(), dir, []string{"up0", "up1"}, out) }()
	await(t, out, "up1: waiting: there is no link yet")
	write(t, filepath.Join(dir, "up1.waiting"), "link to service shop: not plugged: no sandbox\n")
	await(t, out, "up1: waiting: link to service shop: not plugged: no sandbox\n")
	write(t, filepath.Join(dir, "up0"), `{"interface":"up0","service":"shop","addresses":["10.200.5.0/31"],"peer":{"addresses":["10.200.5.1"],"namespace":"default","pod":"b"},"mtu":1450}`)
	await(t, out, "up0: up: service shop, 10.200.5.0/31 to 10.200.5.1 (pod default/b), MTU 1450\n")
	select {
	case err := <-ended:
		t.Fatalf("it ended although up1 is missing: %v", err)
	case <-time.After(3 * pollInterval):
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
	if count := strings.Count(out.String(), "there is no link yet"); count != 2 {
		t.Errorf("it said %d times that nobody has made the two links", count)
	}
}

func TestWaitCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Wait(ctx, t.TempDir(), []string{"up0"}, &text{}); err == nil || err.Error() != "ended while 1 of 1 links were not up" {
		t.Errorf("it says %v", err)
	}
}

func TestWaitBadNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../app.sock"} {
		if err := Wait(t.Context(), t.TempDir(), []string{name}, &text{}); err == nil || !strings.Contains(err.Error(), "is no name of an interface") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// begin waits for links without the poll, but for that of ticks.
func begin(t *testing.T, dir string, watched bool, ticks <-chan time.Time, interfaces ...string) (out *text, ended chan error) {
	t.Helper()
	out, ended = &text{}, make(chan error, 1)
	w := &waiting{dir: dir, out: out, reported: map[string]string{}, reportedAt: map[string]time.Time{}}
	if watched {
		watched, err := newWatch(dir)
		testlab.Must(t, err)
		t.Cleanup(watched.close)
		w.watch = watched
	}
	go func() { ended <- w.wait(t.Context(), interfaces, ticks) }()
	return out, ended
}

func checkEnds(t *testing.T, out *text, ended chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("it goes on: %s", out)
	}
}

func TestWatch(t *testing.T) {
	for name, before := range map[string]func(string) error{
		"in a folder that is there":      func(dir string) error { return os.Mkdir(dir, 0o755) },
		"in a folder that is to be made": func(string) error { return nil },
		"in a folder that is made anew":  func(dir string) error { return os.Mkdir(dir, 0o755) },
		"that are there from the beginning": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "up0"), []byte("{}"), 0o644), os.WriteFile(filepath.Join(dir, "up1"), []byte("{}"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "links")
			testlab.Must(t, before(dir))
			out, ended := begin(t, dir, true, nil, "up0", "up1")
			if name != "that are there from the beginning" {
				await(t, out, "up1: waiting: there is no link yet")
			}
			if name == "in a folder that is made anew" {
				testlab.Must(t, os.Remove(dir))
			}
			write(t, filepath.Join(dir, "up0"), "{}")
			await(t, out, "up0: up")
			write(t, filepath.Join(dir, "up1"), "{}")
			checkEnds(t, out, ended)
		})
	}
}

func TestPollWithoutWatch(t *testing.T) {
	dir, ticks := filepath.Join(t.TempDir(), "links"), make(chan time.Time)
	out, ended := begin(t, dir, false, ticks, "up0")
	await(t, out, "up0: waiting: there is no link yet")
	write(t, filepath.Join(dir, "up0"), "{}")
	ticks <- time.Time{}
	checkEnds(t, out, ended)
}
