// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

func TestRepairAfterChange(t *testing.T) {
	attempts, reports := make(chan struct{}, 8), make(chan map[uint32]error, 8)
	change := make(chan func(), 1)
	broken := errors.New("the tunnel is someone else's")
	r := &Repairer{
		Repair: func(context.Context) ([]string, map[uint32]error, error) {
			attempts <- struct{}{}
			return []string{"set tsnvx42 up"}, map[uint32]error{42: broken}, nil
		},
		Watch: func(ctx context.Context, changed func()) error {
			change <- changed
			<-ctx.Done()
			return ctx.Err()
		},
		Report:   func(faults map[uint32]error) { reports <- faults },
		Repaired: func([]string) {},
		Log:      slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	await(t, attempts)
	if faults := <-reports; !errors.Is(faults[42], broken) {
		t.Errorf("the faults are %v", faults)
	}
	changed := <-change
	changed()
	changed() // while the first one settles
	await(t, attempts)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func await(t *testing.T, attempts <-chan struct{}) {
	t.Helper()
	select {
	case <-attempts:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was repaired for ten seconds")
	}
}

// A report of an attempt that failed as a whole would clear faults that still exist.
func TestFailedAttemptKeepsFaults(t *testing.T) {
	r := &Repairer{
		Repair: func(context.Context) ([]string, map[uint32]error, error) {
			return nil, nil, errors.New("ktsnd does not answer")
		},
		Report: func(map[uint32]error) { t.Error("an attempt without a result was reported") },
		Log:    slog.New(slog.DiscardHandler),
	}
	r.repair(t.Context())
}
