// SPDX-License-Identifier: Apache-2.0

// Package linkwait is ktsn-wait: it waits, in a container of a pod, for the files by which ktsn-agent says that links are up.
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

	"github.com/kubernetsn/kubernetsn/internal/shared/linkfile"
)

// often is how often the files are looked for where the kernel does not tell of them, seldom where it does: filesystems of the kernel's
// users, such as FUSE, do not tell of all.
const (
	often  = 50 * time.Millisecond
	seldom = time.Second
)

// repeat is how often what is missing is said again that has not changed, so that the end of a log shows it.
const repeat = 5 * time.Minute

// maxSentence bounds what is read of a file that says what is missing.
const maxSentence = 4096

// Wait returns when all links are up, or with an error when ctx ends before. It writes to out what is missing, as it changes.
func Wait(ctx context.Context, dir string, interfaces []string, out io.Writer) error {
	for _, name := range interfaces {
		if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
			return fmt.Errorf("%q is no name of an interface", name)
		}
	}
	w := &waiting{dir: dir, out: out, said: map[string]string{}, at: map[string]time.Time{}}
	every := often
	if told, err := newWatch(dir); err == nil {
		defer told.close()
		w.told, every = told, seldom
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	return w.wait(ctx, interfaces, ticks.C)
}

// wait looks when the kernel tells of a change, and at each tick.
func (w *waiting) wait(ctx context.Context, interfaces []string, ticks <-chan time.Time) error {
	var changed <-chan struct{}
	if w.told != nil {
		changed = w.told.changed
	}
	for {
		if w.told != nil {
			_ = w.told.follow() // else the next tick finds it
		}
		missing := 0
		for _, name := range interfaces {
			if !w.look(name, time.Now()) {
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

// waiting is what was said, by interface, and when.
type waiting struct {
	dir string
	out io.Writer
	// told is nil where the kernel does not tell of changes.
	told *watch
	said map[string]string
	at   map[string]time.Time
}

// look tells whether a link was up, and says what has changed.
func (w *waiting) look(name string, now time.Time) bool {
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err == nil {
		w.say(name, upSentence(text), now)
		return true
	}
	w.say(name, w.missing(name, err), now)
	return false
}

// upSentence says of a link that is up where it leads.
func upSentence(text []byte) string {
	var link linkfile.Link
	if json.Unmarshal(text, &link) != nil || len(link.Peer.Addresses) == 0 {
		return "up"
	}
	return fmt.Sprintf("up: service %s, %s to %s (pod %s/%s), MTU %d", link.Service, strings.Join(link.Addresses, ", "), link.Peer.Addresses[0],
		link.Peer.Namespace, link.Peer.Pod, link.MTU)
}

// missing says why a link is not up.
func (w *waiting) missing(name string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("its file cannot be read: %v", err)
	}
	file, err := os.Open(filepath.Join(w.dir, name+linkfile.Waiting))
	if err == nil {
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, maxSentence))
		if sentence := strings.TrimSpace(string(text)); err == nil && sentence != "" {
			return "waiting: " + sentence
		}
	}
	return "waiting: nobody has made a link yet; the conditions and events of its TSNService and of this pod say why"
}

func (w *waiting) say(name, sentence string, now time.Time) {
	if w.said[name] == sentence && now.Sub(w.at[name]) < repeat {
		return
	}
	w.said[name], w.at[name] = sentence, now
	fmt.Fprintf(w.out, "%s: %s\n", name, sentence)
}
