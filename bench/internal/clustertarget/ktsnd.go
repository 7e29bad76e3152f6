// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// ktsn is next to ktsnd in its image.
const ktsn = "/usr/bin/ktsn"

// counted are the counters of the talkers' node's ktsnd, over all pods there, and its processor time.
type counted struct {
	late, sent uint64
	busy       time.Duration
}

// since returns ktsnd's counts for a run; nil if they are unknown, because ktsnd could not be asked, was restarted, or
// sent messages of others meanwhile.
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

// note adds ktsnd's counts to a run. They include its idle processor time before and after the messages.
func (c *counted) note(r engine.Run, seen *traffic.Observation) {
	if c == nil {
		return
	}
	seen.Late = &c.late
	seen.CPUCores["ktsnd"] = shareOf(c.busy, r)
}

// shareOf returns processor time as a share of the duration of a run's messages.
func shareOf(busy time.Duration, r engine.Run) float64 {
	return float64(busy) / float64(time.Duration(r.Messages)*r.Cycle())
}

// countSoFar reads the counters of the talkers' node's ktsnd; nil if it cannot be asked, or takes no part in the run.
func (l *Target) countSoFar(ctx context.Context, r engine.Run) (*counted, error) {
	if l.ktsnd == nil || !results.ThroughKtsnd(r.Path) {
		return nil, nil
	}
	status, err := l.askKtsnd(ctx, l.ktsnd)
	if err != nil {
		return nil, err
	}
	return &counted{late: status.Counters.Late(), sent: status.Counters.Sent, busy: time.Duration(status.ProcessorTimeNs)}, nil
}

// askKtsnd reads the status of the ktsnd in a pod.
func (l *Target) askKtsnd(ctx context.Context, pod *corev1.Pod) (*control.Status, error) {
	text, err := l.run(ctx, "ktsn status", pod, ktsndContainer, ktsn, "status", "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("ask ktsnd for its status: %w", err)
	}
	return readStatus(text)
}

func readStatus(text string) (*control.Status, error) {
	var state struct {
		Status *control.Status `json:"status"`
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return nil, fmt.Errorf("understand `ktsn status -o json`: %w", err)
	}
	if state.Status == nil {
		return nil, errors.New("understand `ktsn status -o json`: it has no status")
	}
	return state.Status, nil
}
