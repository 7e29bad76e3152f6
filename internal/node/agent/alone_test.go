// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// onWrite is a writer that calls a function for each log line.
type onWrite func()

func (w onWrite) Write(text []byte) (int, error) {
	w()
	return len(text), nil
}

func TestAwaitAloneReturnsWhenOtherAgentEnds(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	testlab.Must(t, err)
	logged := 0
	log := slog.New(slog.NewTextHandler(onWrite(func() {
		logged++
		other.Close()
	}), nil))
	if err := awaitAlone(t.Context(), other.Addr().String(), log); err != nil || logged != 1 {
		t.Errorf("%v, after %d sentences", err, logged)
	}
}

func TestAwaitAloneEndsWithContext(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	testlab.Must(t, err)
	defer other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err = awaitAlone(ctx, other.Addr().String(), slog.New(slog.NewTextHandler(onWrite(cancel), nil)))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAwaitAloneRejectsInvalidAddress(t *testing.T) {
	err := awaitAlone(t.Context(), "here", slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "listen for probes: ") {
		t.Errorf("got %v", err)
	}
}
