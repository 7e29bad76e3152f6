// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// writes calls for each line of a log.
type writes func()

func (w writes) Write(text []byte) (int, error) {
	w()
	return len(text), nil
}

func TestAnAgentBeginsWhenTheOneBeforeHasEnded(t *testing.T) {
	before, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	log := slog.New(slog.NewTextHandler(writes(func() {
		said++
		before.Close()
	}), nil))
	if err := awaitAlone(t.Context(), before.Addr().String(), log); err != nil || said != 1 {
		t.Errorf("%v, after %d sentences", err, said)
	}
}

func TestAnAgentThatWaitsForAnotherCanBeEnded(t *testing.T) {
	before, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err = awaitAlone(ctx, before.Addr().String(), slog.New(slog.NewTextHandler(writes(cancel), nil)))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAHealthAddressThatIsNoneIsSaid(t *testing.T) {
	err := awaitAlone(t.Context(), "here", slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "listen for probes: ") {
		t.Errorf("got %v", err)
	}
}
