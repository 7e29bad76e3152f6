// SPDX-License-Identifier: Apache-2.0

// Package linkwait implements ktsn-wait: it waits, in a container of a pod, for the files that ktsn-agent writes when links are up.
package linkwait

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files are looked for every pollInterval where the kernel does not report changes, else every watchInterval: filesystems in
// user space, such as FUSE, do not report all changes.
const (
	pollInterval  = 50 * time.Millisecond
	watchInterval = time.Second
)

// repeatAfter is how often an unchanged reason is reported again, so that the end of a log shows it.
const repeatAfter = 5 * time.Minute

// maxReasonBytes limits how much of a file with a reason is read.
const maxReasonBytes = 4096

// Wait returns when all links are up, or with an error when ctx ends before. It writes to out which links are missing
// and why, when that changes.
func Wait(ctx context.Context, dir string, interfaces []string, out io.Writer) error {
	for _, name := range interfaces {
		if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
			return fmt.Errorf("%q is no name of an interface", name)
		}
	}
	w := &waiting{dir: dir, out: out, reported: map[string]string{}, reportedAt: map[string]time.Time{}}
	every := pollInterval
	if watch, err := newWatch(dir); err == nil {
		defer watch.close()
		w.watch, every = watch, watchInterval
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	return w.wait(ctx, interfaces, ticks.C)
}

// wait checks the links when the kernel reports a change, and at each tick.
func (w *waiting) wait(ctx context.Context, interfaces []string, ticks <-chan time.Time) error {
	var changed <-chan struct{}
	if w.watch != nil {
		changed = w.watch.changed
	}
	for {
		if w.watch != nil {
			_ = w.watch.follow() // else the next tick finds it
		}
		missing := 0
		for _, name := range interfaces {
			if !w.check(name, time.Now()) {
				missing++
			}
		}
		if missing == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ended while %d of %d links were not up", missing, len(interfaces))
		case <-changed:
		case <-ticks:
		}
	}
}

// waiting has the last report for each interface, and its time.
type waiting struct {
	dir string
	out io.Writer
	// watch is nil if the kernel does not report changes.
	watch      *watch
	reported   map[string]string
	reportedAt map[string]time.Time
}

// check reports whether a link was up, and writes what has changed.
func (w *waiting) check(name string, now time.Time) bool {
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err == nil {
		w.report(name, upReport(text), now)
		return true
	}
	w.report(name, w.reason(name, err), now)
	return false
}

// upReport describes a link that is up.
func upReport(text []byte) string {
	var link Link
	if json.Unmarshal(text, &link) != nil || len(link.Peer.Addresses) == 0 {
		return "up"
	}
	return fmt.Sprintf("up: service %s, %s to %s (pod %s/%s), MTU %d", link.Service, strings.Join(link.Addresses, ", "), link.Peer.Addresses[0],
		link.Peer.Namespace, link.Peer.Pod, link.MTU)
}

// reason returns why a link is not up.
func (w *waiting) reason(name string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("its file cannot be read: %v", err)
	}
	file, err := os.Open(filepath.Join(w.dir, name+Waiting))
	if err == nil {
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, maxReasonBytes))
		if sentence := strings.TrimSpace(string(text)); err == nil && sentence != "" {
			return "waiting: " + sentence
		}
	}
	return "waiting: there is no link yet; the conditions and events of its TSNService and of this pod say why"
}

func (w *waiting) report(name, sentence string, now time.Time) {
	if w.reported[name] == sentence && now.Sub(w.reportedAt[name]) < repeatAfter {
		return
	}
	w.reported[name], w.reportedAt[name] = sentence, now
	fmt.Fprintf(w.out, "%s: %s\n", name, sentence)
}
