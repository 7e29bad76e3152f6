// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
)

// simulatedCard is a clock that is 250 ns ahead.
type simulatedCard struct{ broken bool }

func (s simulatedCard) Compare() (phc.Reading, error) {
	if s.broken {
		return phc.Reading{}, errors.New("it is gone")
	}
	return phc.Reading{Ahead: 250, Exact: 10}, nil
}

func (simulatedCard) Close() {}

func TestClocksOfCardsArePublishedWhileTheProgramsRun(t *testing.T) {
	runner, messages, _ := simulated(t, "--device eth1")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	await(t, filepath.Join(runner.RunDir, "card-eth1"))
	reading, err := phc.Published(runner.RunDir, "eth1").Compare()
	if err != nil || reading.Ahead != 250 || reading.Exact < 10 {
		t.Errorf("published is %+v, %v; it said %s", reading, err, messages)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if left, err := filepath.Glob(filepath.Join(runner.RunDir, "card-*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestACardThatCannotBeReadIsSaidOnce(t *testing.T) {
	var messages []string
	broken := true
	reading := &cards{folder: t.TempDir(), names: []string{"eth1", "eth2"}, say: func(sentence string) { messages = append(messages, sentence) },
		opened: map[string]phc.Device{}, complaints: map[string]string{}}
	reading.open = func(name string) (phc.Device, error) {
		if name == "eth2" {
			return nil, errors.New("not permitted")
		}
		return simulatedCard{broken}, nil
	}
	for range 3 {
		reading.publish()
	}
	want := []string{"the clock of eth1 is not published: it is gone", "the clock of eth2 is not published: not permitted"}
	if !slices.Equal(messages, want) {
		t.Errorf("it said %q, want %q", messages, want)
	}
	broken = false
	reading.publish()
	if _, err := os.Stat(filepath.Join(reading.folder, "card-eth1")); err != nil {
		t.Errorf("what can be read again is not published: %v", err)
	}
	reading.close()
}
