// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// fake is a target whose messages take as many nanoseconds as their path has letters, times 1000.
type fake struct {
	performed []Run
	prepared  []Setting
	// stopAfter runs, stop ends the bench, or fails it.
	stopAfter int
	stop      func() error
	// factor makes messages take longer; 0 is 1.
	factor int64
	// clock is the error of the clocks; nil: there is one clock.
	clock *results.ClockError
}

func (f *fake) Prepare(_ context.Context, setting Setting) error {
	f.prepared = append(f.prepared, setting)
	return nil
}

func (f *fake) Perform(_ context.Context, run Run) (*Outcome, error) {
	if f.stop != nil && len(f.performed) == f.stopAfter {
		if err := f.stop(); err != nil {
			return nil, err
		}
	}
	f.performed = append(f.performed, run)
	if run.IdleNs > 0 {
		return &Outcome{Idle: &results.Idle{DurationNs: run.IdleNs, CPUCores: map[string]float64{"ktsnd": 0.001}}}, nil
	}
	outcome := outcomeOf(run, int64(len(run.Path)*1000)*max(f.factor, 1))
	outcome.Observed.ClockError = cmp.Or(f.clock, results.OneClock())
	return outcome, nil
}

func (f *fake) Host() (results.Host, error) { return results.Host{}, nil }

func (f *fake) Close(context.Context) error { return nil }

func (f *fake) Environment() Environment {
	return Environment{SenderCPU: 0, ListenerCPU: 1, Programs: map[string]string{"ktsnd": "0123456789abcdef"}, KtsndVersion: "0.1.0"}
}

func outcomeOf(run Run, latencyNs int64) *Outcome {
	outcome := &Outcome{Problems: []string{}}
	for i := range run.Messages {
		due := int64(run.Number)*1_000_000_000 + int64(i)*run.CycleNs
		message := results.Message{Sequence: uint32(i), Txtime: due, SendStart: due - 100, SendEnd: due - 90, Arrival: due + latencyNs + int64(i%7)}
		if results.ThroughKtsnd(run.Path) {
			message.Departed = due + latencyNs/10
		}
		if !run.Unsampled {
			message.Wire = due + latencyNs/2
		}
		outcome.Messages = append(outcome.Messages, message)
	}
	outcome.Observed.Sent, outcome.Observed.Received = run.Messages, run.Messages
	outcome.Observed.CPUCores = map[string]float64{"talker": 0.125, "ktsnd": 0.25}
	return outcome
}

// short is a profile of a few messages.
func short() Profile {
	profile := wanted()
	profile.Workloads = profile.Workloads[:1]
	profile.Messages, profile.WarmUp = 20, 10
	return profile
}

func host() results.Host {
	return results.Host{Kernel: "6.18", CPUModel: "a processor", Cores: 2}
}

// measure makes what is missing in a folder.
func measure(ctx context.Context, dir string, profile *Profile, target *fake) error {
	store, err := OpenStore(dir, NewManifest(profile, host(), target.Environment()))
	if err != nil {
		return err
	}
	runner := Runner{Store: store, Target: target, Progress: NewProgress(io.Discard, 0, time.Now), Now: time.Now}
	return errors.Join(runner.Perform(ctx, Plan(profile)), store.Close())
}

func collected(t *testing.T, dir string) (*results.Summary, []results.Series) {
	t.Helper()
	store, err := ReadStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	summary, series, err := Collect(store)
	if err != nil {
		t.Fatal(err)
	}
	return summary, series
}

func TestCollect(t *testing.T) {
	dir, profile := t.TempDir(), short()
	if err := measure(t.Context(), dir, &profile, &fake{}); err != nil {
		t.Fatal(err)
	}
	summary, series := collected(t, dir)
	if len(summary.Runs) != 6 || len(series) != 6 || summary.Profile.Done != summary.Profile.Runs || summary.Idle == nil {
		t.Fatalf("%d runs, %d series, profile %+v", len(summary.Runs), len(series), summary.Profile)
	}
	for i, run := range summary.Runs {
		path, payload := profile.Paths[i%3], profile.Payloads[i/3]
		if run.Path != path || run.PayloadBytes != payload || run.Sent != 60 || len(run.Alternations) != 3 ||
			run.Latency.Min != int64(len(path)*1000) || run.LaunchError.P50 != int64(len(path)*500) || run.SendCall.P50 != 10 {
			t.Errorf("run %d is %+v", i, run)
		}
		if last := series[i].MeasuredNs[59]; last != 59*1_000_000 {
			t.Errorf("the last message of run %d is at %d ns", i, last)
		}
	}
	for _, ratio := range summary.Ratios {
		want := float64(len(ratio.Path)) / float64(len(ratio.AgainstPath))
		if ratio.Value < want*0.99 || ratio.Value > want*1.01 || ratio.Low > ratio.Value || ratio.High < ratio.Value {
			t.Errorf("%+v, want about %v", ratio, want)
		}
	}
	if len(summary.Ratios) != 2*2*2 {
		t.Errorf("%d ratios", len(summary.Ratios))
	}
}

func TestStoppedBenchContinues(t *testing.T) {
	dir, profile := t.TempDir(), short()
	ctx, cancel := context.WithCancel(t.Context())
	first := &fake{stopAfter: 12, stop: func() error { cancel(); return ctx.Err() }}
	if err := measure(ctx, dir, &profile, first); !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
	summary, _ := collected(t, dir)
	if summary.Profile.Done != 9 || !strings.Contains(fmt.Sprint(summary.NotMeasured), "10 of 19 runs") { // three warm-ups
		t.Errorf("%+v, %v", summary.Profile, summary.NotMeasured)
	}
	// Incomplete files of a killed bench do not count.
	half := filepath.Join(dir, runsName, ".00010-plain")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := &fake{}
	if err := measure(t.Context(), dir, &profile, second); err != nil {
		t.Fatal(err)
	}
	for _, run := range second.performed {
		if run.Number > 0 && run.Number <= 9 {
			t.Errorf("run %d was measured again", run.Number)
		}
	}
	if summary, _ := collected(t, dir); summary.Profile.Done != 19 || len(summary.NotMeasured) != 0 {
		t.Errorf("%+v, %v", summary.Profile, summary.NotMeasured)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("the half of a run is still there")
	}
	third := &fake{}
	if err := measure(t.Context(), dir, &profile, third); err != nil || len(third.performed)+len(third.prepared) != 0 {
		t.Errorf("a bench that was complete did %v, %v", third.performed, err)
	}
}

func TestInterruptionKeepsRuns(t *testing.T) {
	whole, parts, profile := t.TempDir(), t.TempDir(), short()
	if err := measure(t.Context(), whole, &profile, &fake{}); err != nil {
		t.Fatal(err)
	}
	for stop := 1; ; stop++ {
		err := measure(t.Context(), parts, &profile, &fake{stopAfter: 5, stop: func() error { return errors.New("broken") }})
		if err == nil {
			break
		}
		if stop > 20 {
			t.Fatalf("no end: %v", err)
		}
	}
	names := func(dir string) []string {
		files, err := filepath.Glob(filepath.Join(dir, runsName, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		return files
	}
	if !slices.Equal(names(whole), names(parts)) {
		t.Errorf("%q and %q", names(whole), names(parts))
	}
}

func TestFolderOfOtherBenchIsRejected(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Profile, *Manifest)
		want   string
	}{
		"another profile":           {func(p *Profile, _ *Manifest) { p.Messages = 30 }, "another profile: messages differs"},
		"another order of payloads": {func(p *Profile, _ *Manifest) { p.Payloads = []int{256, 64} }, "payloads differs"},
		"another kernel":            {func(_ *Profile, m *Manifest) { m.Host.Kernel = "7.0" }, "the kernel was 6.18 and is 7.0"},
		"other processors":          {func(_ *Profile, m *Manifest) { m.Environment.SenderCPU = 5 }, "processor of the talkers"},
		"another ktsnd": {func(_ *Profile, m *Manifest) { m.Environment.Programs = map[string]string{"ktsnd": "fedcba9876543210"} },
			"another ktsnd (SHA-256 0123456789ab…, here fedcba987654…)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, profile := t.TempDir(), short()
			if err := measure(t.Context(), dir, &profile, &fake{}); err != nil {
				t.Fatal(err)
			}
			manifest := NewManifest(&profile, host(), (&fake{}).Environment())
			test.change(&manifest.Profile, manifest)
			if store, err := OpenStore(dir, manifest); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v", store, err)
			}
			if summary, _ := collected(t, dir); summary.Profile.Done != 19 {
				t.Error("what was measured is gone")
			}
		})
	}
}

func TestFolderInUseIsRejected(t *testing.T) {
	profile := short()
	manifest := NewManifest(&profile, host(), (&fake{}).Environment())
	t.Run("by another bench", func(t *testing.T) {
		dir := t.TempDir()
		store, err := OpenStore(dir, manifest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenStore(dir, manifest); err == nil || !strings.Contains(err.Error(), "another bench is writing") {
			t.Errorf("got %v", err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if again, err := OpenStore(dir, manifest); err != nil {
			t.Error(err)
		} else if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("by something else", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenStore(dir, manifest); err == nil || !strings.Contains(err.Error(), "holds thesis.tex") {
			t.Errorf("got %v", err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("it now has %v, %v", files, err)
		}
	})
}

func TestReadStoreErrors(t *testing.T) {
	dir, profile := t.TempDir(), short()
	if _, err := ReadStore(dir); !errors.Is(err, ErrNoBench) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	if err := measure(t.Context(), dir, &profile, &fake{}); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, runsName, "*"))
	if err := os.Truncate(files[3], 100); err != nil {
		t.Fatal(err)
	}
	store, err := ReadStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Collect(store); err == nil || !strings.Contains(err.Error(), files[3]+" is damaged; remove it") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), []byte(`{"schema": 7}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadStore(dir); err == nil || !strings.Contains(err.Error(), "schema 7") {
		t.Errorf("got %v", err)
	}
}

func TestFullDiskKeepsMeasurements(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	out, profile := filepath.Join(dir, "out"), short()
	profile.Messages = 400
	err := measure(t.Context(), out, &profile, &fake{})
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "no space is left in "+out) {
		t.Fatalf("it ended with %v", err)
	}
	summary, _ := collected(t, out)
	if done := summary.Profile.Done; done == 0 || done == summary.Profile.Runs {
		t.Errorf("%d runs of %d are kept", done, summary.Profile.Runs)
	}
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	if err := measure(t.Context(), out, &profile, &fake{}); err != nil {
		t.Errorf("with more space: %v", err)
	}
}

func TestPauseDelaysDueMessages(t *testing.T) {
	// The talker stands still from the 10th to the 60th message and then sends what was due at once, as tsnperf does; each
	// send takes 1 µs and each message 5 µs.
	const cycle, pauseEnd = 1_000_000, 60_000_000
	var messages []results.Message
	now := int64(0)
	for i := range int64(100) {
		due := i * cycle
		now = max(now, due)
		if i >= 10 {
			now = max(now, pauseEnd)
		}
		messages = append(messages, results.Message{Sequence: uint32(i), Txtime: due + 1, SendStart: now + 1, SendEnd: now + 1001, Arrival: now + 5001})
		now += 1000
	}
	got := samplesOf(messages, &Run{Key: results.Key{CycleNs: cycle}}).latency
	if len(got) != 100 {
		t.Fatalf("%d samples, want 100", len(got))
	}
	late := 0
	for i, latency := range got {
		if i >= 10 && i < 60 && latency < int64(60-i)*cycle {
			t.Errorf("message %d took %d ns although it was due %d ms before the pause ended", i, latency, 60-i)
		}
		if latency >= cycle {
			late++
		}
	}
	if late < 50 {
		t.Errorf("%d messages are late by a cycle, want the 50 that were due during the pause", late)
	}
}
