// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// board records the state of the agent's parts. The agent is ready when all parts work. All methods may be called from any goroutine.
type board struct {
	mu    sync.Mutex
	state map[string]error
	// changed is called when the state of a part changes.
	changed func(part string, err error)
}

// errNotStarted is the first state of each part.
var errNotStarted = errors.New("not started yet")

func newBoard(changed func(part string, err error), parts ...string) *board {
	state := map[string]error{}
	for _, part := range parts {
		state[part] = errNotStarted
	}
	return &board{state: state, changed: changed}
}

// set records the state of a part; nil means that it works.
func (b *board) set(part string, err error) {
	b.mu.Lock()
	before, known := b.state[part]
	b.state[part] = err
	b.mu.Unlock()
	if !known || fmt.Sprint(before) != fmt.Sprint(err) {
		b.changed(part, err)
	}
}

// get returns the state of a part.
func (b *board) get(part string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state[part]
}

// check implements healthz.Checker. The error names each part that does not work.
func (b *board) check(*http.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var failures []string
	for _, part := range slices.Sorted(maps.Keys(b.state)) {
		if err := b.state[part]; err != nil {
			failures = append(failures, part+": "+errortext.OneLine(err))
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return fmt.Errorf("not ready: %s", strings.Join(failures, "; "))
}
