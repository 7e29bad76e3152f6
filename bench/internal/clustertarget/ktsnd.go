// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// ktsn is beside ktsnd in its image.
const ktsn = "/usr/bin/ktsn"

// counted is what ktsnd of the talkers' node has counted so far, of all pods there, and what it has taken of the processors.
type counted struct {
	late, sent uint64
	busy       time.Duration
}

// since is what ktsnd did for a run; nil when nobody knows, because it could not be asked, began anew, or sent messages of
// others meanwhile.
func since(before, after *counted, talkers []traffic.Talker) *counted {
	if before == nil || after == nil || after.late < before.late || after.sent < before.sent || after.busy < before.busy {
		return nil
	}
	var handed uint64
	for i := range talkers {
		for _, message := range talkers[i].Sent {
			if message.Errno == 0 {
				handed++
			}
		}
	}
	if after.sent-before.sent > handed {
		return nil
	}
	return &counted{late: after.late - before.late, sent: after.sent - before.sent, busy: after.busy - before.busy}
}

// note adds to a run what ktsnd did for it. What it takes with nothing to send, before and after the messages, is part of that.
func (c *counted) note(r engine.Run, seen *traffic.Observation) {
	if c == nil {
		return
	}
	seen.Late = &c.late
	seen.CPUCores["ktsnd"] = shareOf(c.busy, r)
}

// shareOf is what processor time is of the time that a run's messages take.
func shareOf(busy time.Duration, r engine.Run) float64 {
	return float64(busy) / float64(time.Duration(r.Messages)*r.Cycle())
}

// countSoFar asks ktsnd of the talkers' node what it has counted; nil when it cannot be asked, or has no part in the run.
func (l *Target) countSoFar(ctx context.Context, r engine.Run) (*counted, error) {
	if l.ktsnd == nil || !results.ThroughKtsnd(r.Path) {
		return nil, nil
	}
	status, err := l.askKtsnd(ctx, l.ktsnd)
	if err != nil {
		return nil, err
	}
	return status.count(), nil
}

// ktsndStatus is what of ktsnd's status a bench needs.
type ktsndStatus struct {
	control.Status
	// Counters by name: those that say why a message was late begin alike.
	Counters map[string]uint64 `json:"counters"`
	// Clock is what it was told of the clock; older ones do not say.
	Clock ktsndClock `json:"clock"`
}

func (s *ktsndStatus) count() *counted {
	sum := counted{sent: s.Counters["sent"], busy: time.Duration(s.ProcessorTimeNs)}
	for name, count := range s.Counters {
		if strings.HasPrefix(name, "late-") {
			sum.late += count
		}
	}
	return &sum
}

// askKtsnd asks ktsnd of a node, which is in this pod, for its status.
func (l *Target) askKtsnd(ctx context.Context, pod *corev1.Pod) (*ktsndStatus, error) {
	text, err := l.run(ctx, "ktsn status", pod, ktsndContainer, ktsn, "status", "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("ask ktsnd for its status: %w", err)
	}
	return readStatus(text)
}

func readStatus(text string) (*ktsndStatus, error) {
	var state struct {
		Status *ktsndStatus `json:"status"`
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return nil, fmt.Errorf("understand `ktsn status -o json`: %w", err)
	}
	if state.Status == nil {
		return nil, errors.New("understand `ktsn status -o json`: it has no status")
	}
	return state.Status, nil
}
