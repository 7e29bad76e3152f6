// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay/filter"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func openNode(t *testing.T, dir string, patience time.Duration) *Node {
	t.Helper()
	node, err := Open(dir, patience)
	testlab.Must(t, err)
	t.Cleanup(node.Close)
	// The machine's own tables stay as they are.
	node.apply = func(*filter.Wanted) ([]string, error) { return nil, nil }
	return node
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, second := openNode(t, dir, time.Minute), openNode(t, dir, 50*time.Millisecond)
	unlock, err := first.lock(t.Context())
	testlab.Must(t, err)
	if _, err := second.lock(t.Context()); kindOf(err) != Busy {
		t.Errorf("while it is held: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := first.lock(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("for one who does not want it any more: %v", err)
	}
	unlock()
	// Callers that gave up still wait in the background and release the lock at once.
	for range 20 {
		var unlock func()
		if unlock, err = second.lock(t.Context()); err == nil {
			unlock()
			break
		}
	}
	if err != nil {
		t.Errorf("when it is free: %v", err)
	}
}
