// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// longestShownNs is the longest latency that the progress distinguishes.
const longestShownNs = 60_000_000_000

// Progress shows the progress: on a terminal a line that is overwritten before each run, elsewhere a line per
// repetition. It writes between runs only.
type Progress struct {
	out     io.Writer
	columns int
	now     func() time.Time
	begin   time.Time
	// planned and done are estimated durations of the runs, which the clock then corrects.
	planned, done time.Duration
	overhead      time.Duration
	// latency is by path, over all runs so far, to three digits.
	latency map[string]*hdrhistogram.Histogram
	paths   []string
	// repetition is the current repetition, 0 before the first.
	repetition int
}

// NewProgress writes to out. columns is the width of the terminal, 0 if out is none.
func NewProgress(out io.Writer, columns int, now func() time.Time) *Progress {
	return &Progress{out: out, columns: columns, now: now, latency: map[string]*hdrhistogram.Histogram{}}
}

// plan is called before the first run. overhead is added to the duration of each.
func (p *Progress) plan(blocks []Block, overhead time.Duration) {
	p.begin, p.overhead = p.now(), overhead
	for _, block := range blocks {
		p.planned += settingOverhead
		for _, run := range block.Runs {
			p.planned += run.Duration() + overhead
		}
	}
}

// resumes reports what the store contains already.
func (p *Progress) resumes(skipped, planned int) {
	fmt.Fprintf(p.out, "%d of %d runs were measured before; going on with the others\n", skipped, planned)
}

// prepared is called when the target is in the setting of a block.
func (p *Progress) prepared() {
	p.done += settingOverhead
}

// starts is called before each run.
func (p *Progress) starts(next Run) {
	if p.columns == 0 && next.Repetition != p.repetition {
		fmt.Fprintf(p.out, "%s: repetition %d%s\n", p.timeLeft(), next.Repetition, p.standing())
	}
	p.overwrite(fmt.Sprintf("%s: repetition %d, %s%s", p.timeLeft(), next.Repetition, p.what(next), p.standing()))
	p.repetition = next.Repetition
}

func (p *Progress) what(run Run) string {
	if run.IdleNs > 0 {
		return "ktsnd with nothing to send"
	}
	if run.Number == 0 {
		return "warming up " + run.Path
	}
	return run.what()
}

// ended is called after each run with its latencies; warm-ups do not count.
func (p *Progress) ended(r Run, latency []int64) error {
	p.done += r.Duration() + p.overhead
	if r.Number == 0 || r.Witness || len(latency) == 0 {
		return nil
	}
	if p.latency[r.Path] == nil {
		p.latency[r.Path] = hdrhistogram.New(1, longestShownNs, 3)
		p.paths = append(p.paths, r.Path)
	}
	for _, sample := range latency {
		if err := p.latency[r.Path].RecordValue(min(max(sample, 0), longestShownNs)); err != nil {
			return fmt.Errorf("record sample: %w", err)
		}
	}
	return nil
}

// overwrite replaces the line on a terminal, cut to the width, because a wrapped line cannot be overwritten.
func (p *Progress) overwrite(text string) {
	if p.columns == 0 {
		return
	}
	if runes := []rune(text); len(runes) >= p.columns {
		text = string(runes[:p.columns-1])
	}
	fmt.Fprint(p.out, "\r\x1b[K", text)
}

// clear removes the line on a terminal.
func (p *Progress) clear() {
	p.overwrite("")
}

// standing returns the latency so far.
func (p *Progress) standing() string {
	var parts []string
	for _, path := range p.paths {
		parts = append(parts, path+" "+results.Micros(p.latency[path].ValueAtPercentile(50)))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; p50 so far, µs: " + strings.Join(parts, ", ")
}

func (p *Progress) timeLeft() string {
	return fmt.Sprintf("%d s left", int(p.left().Round(time.Second)/time.Second))
}

// left extrapolates the time left from the pace so far.
func (p *Progress) left() time.Duration {
	remaining := max(p.planned-p.done, 0)
	if p.done < time.Second {
		return remaining
	}
	pace := float64(p.now().Sub(p.begin)) / float64(p.done)
	return time.Duration(float64(remaining) * pace)
}
