// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/results"
	"github.com/kubernetsn/kubernetsn/internal/stats"
)

// progress says where the measurement stands: on a terminal a line that is overwritten before each run,
// elsewhere a line an alternation. It writes between runs only, never during one.
type progress struct {
	out     io.Writer
	columns int
	now     func() time.Time
	cycle   time.Duration
	begin   time.Time
	// planned and done are estimated times of the runs, which the clock then corrects.
	planned, done time.Duration
	paths         []string
	// latency is by path, over all payloads so far.
	latency map[string]*stats.Running
	last    run
}

func newProgress(config *Config, blocks []block) *progress {
	p := &progress{
		out:     config.Progress,
		columns: config.ProgressColumns,
		now:     config.Now,
		cycle:   config.Cycle,
		begin:   config.Now(),
		paths:   config.Paths,
		latency: map[string]*stats.Running{},
	}
	for _, block := range blocks {
		for _, run := range block.runs {
			p.planned += run.duration(p.cycle)
		}
		if block.idle {
			p.planned += idleTime
		}
	}
	return p
}

// starts is called before each run.
func (p *progress) starts(next run) {
	if p.columns == 0 && (next.alternation != p.last.alternation || !takeTurns(next.workload, p.last.workload)) {
		fmt.Fprintf(p.out, "%s: %s%s\n", p.timeLeft(), p.describe(next), p.standing())
	}
	p.overwrite(fmt.Sprintf("%s: %s, %s, %d B%s", p.timeLeft(), p.describe(next), next.path, next.payloadBytes, p.standing()))
	p.last = next
}

// takeTurns tells whether runs of two workloads follow each other within an alternation.
func takeTurns(one, other string) bool {
	return one == other || (hasGates(one) && hasGates(other))
}

// ended is called after each run with its latencies; warm-ups do not count.
func (p *progress) ended(r run, latency []int64) error {
	p.done += r.duration(p.cycle)
	if r.alternation == 0 {
		return nil
	}
	if p.latency[r.path] == nil {
		p.latency[r.path] = stats.NewRunning()
	}
	return p.latency[r.path].Add(latency)
}

// idles is called before ktsnd is watched with nothing to send.
func (p *progress) idles() {
	p.overwrite(p.timeLeft() + ": ktsnd with nothing to send" + p.standing())
	p.done += idleTime
}

// overwrite replaces the line on a terminal by as much of text as fits: what wraps cannot be overwritten.
func (p *progress) overwrite(text string) {
	if p.columns == 0 {
		return
	}
	if runes := []rune(text); len(runes) >= p.columns {
		text = string(runes[:p.columns-1])
	}
	fmt.Fprint(p.out, "\r\x1b[K", text)
}

// clear removes the line on a terminal.
func (p *progress) clear() {
	p.overwrite("")
}

func (p *progress) describe(r run) string {
	if r.alternation == 0 {
		return r.workload + ", warming up"
	}
	return fmt.Sprintf("%s, alternation %d", r.workload, r.alternation)
}

// standing is the latency so far.
func (p *progress) standing() string {
	var parts []string
	for _, path := range p.paths {
		if running := p.latency[path]; running != nil {
			parts = append(parts, path+" "+results.Micros(running.Percentile(50)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; p50 so far, µs: " + strings.Join(parts, ", ")
}

func (p *progress) timeLeft() string {
	return fmt.Sprintf("%d s left", int(p.left().Round(time.Second)/time.Second))
}

// left extrapolates from the pace so far.
func (p *progress) left() time.Duration {
	remaining := max(p.planned-p.done, 0)
	if p.done < time.Second {
		return remaining
	}
	pace := float64(p.now().Sub(p.begin)) / float64(p.done)
	return time.Duration(float64(remaining) * pace)
}
