// SPDX-License-Identifier: Apache-2.0

// Package health keeps what the parts of the agent say of themselves. The agent is ready when each part that was named
// at the start has said that it is well and none has said otherwise since.
//
// Threads: all methods may be called from any goroutine.
package health

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Board is where parts write how they are.
type Board struct {
	mu    sync.Mutex
	state map[string]error
	// changed is told when a part's state is another one than before.
	changed func(part string, err error)
}

// notYet is the state of a part that has said nothing.
type notYet struct{}

func (notYet) Error() string { return "not started yet" }

// New makes a board for parts, none of which is well before it says so. changed may be nil.
func New(changed func(part string, err error), parts ...string) *Board {
	state := map[string]error{}
	for _, part := range parts {
		state[part] = notYet{}
	}
	if changed == nil {
		changed = func(string, error) {}
	}
	return &Board{state: state, changed: changed}
}

// Set says how a part is; nil: well.
func (b *Board) Set(part string, err error) {
	b.mu.Lock()
	before, known := b.state[part]
	b.state[part] = err
	b.mu.Unlock()
	if !known || fmt.Sprint(before) != fmt.Sprint(err) {
		b.changed(part, err)
	}
}

// Get tells how a part is.
func (b *Board) Get(part string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state[part]
}

// Snapshot is the state of all parts.
func (b *Board) Snapshot() map[string]error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.state)
}

// Check is a check of controller-runtime's, and names every part that is not well.
func (b *Board) Check(*http.Request) error {
	state := b.Snapshot()
	var all []string
	for _, part := range slices.Sorted(maps.Keys(state)) {
		if err := state[part]; err != nil {
			all = append(all, part+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("not ready: %s", strings.Join(all, "; "))
}

// ServeHTTP is Check for a person or a probe: every part with how it is, and status 500 unless all are well.
func (b *Board) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	state := b.Snapshot()
	var text strings.Builder
	status := http.StatusOK
	for _, part := range slices.Sorted(maps.Keys(state)) {
		if err := state[part]; err != nil {
			status = http.StatusInternalServerError
			fmt.Fprintf(&text, "%s: %s\n", part, strings.ReplaceAll(err.Error(), "\n", "; "))
		} else {
			fmt.Fprintf(&text, "%s: ok\n", part)
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text.String())) // the asker may have gone
}
