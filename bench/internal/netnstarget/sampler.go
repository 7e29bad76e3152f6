// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
)

// samplePeriod is the interval of samples of programs and machine during a run.
const samplePeriod = 250 * time.Millisecond

// sampler watches the machine and some programs during a run. It is a nil pointer in runs without samplers.
type sampler struct {
	stop   context.CancelFunc
	done   chan struct{}
	begin  time.Time
	busy   time.Duration
	memory map[string]int64
	// err is valid after done is closed.
	err error
}

// startSampler begins to watch programs by name.
func startSampler(ctx context.Context, watched map[string]*process.Process) (*sampler, error) {
	now, err := results.ReadCPUTimes()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &sampler{stop: stop, done: make(chan struct{}), begin: time.Now(), busy: now.Busy, memory: map[string]int64{}}
	go s.watch(ctx, watched)
	return s, nil
}

func (s *sampler) watch(ctx context.Context, watched map[string]*process.Process) {
	defer close(s.done)
	ticks := time.NewTicker(samplePeriod)
	defer ticks.Stop()
	for {
		for name, program := range watched {
			bytes, err := residentBytes(program.PID())
			if err == nil {
				s.memory[name] = max(s.memory[name], bytes)
			} else if s.err == nil {
				s.err = err
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// finish ends the watch and adds its results to the observation.
func (s *sampler) finish(observed *results.Distributions) error {
	if s == nil {
		return nil
	}
	s.stop()
	<-s.done
	now, err := results.ReadCPUTimes()
	if err != nil {
		return err
	}
	cores := float64(now.Busy-s.busy) / float64(time.Since(s.begin))
	observed.MachineCores, observed.MemoryBytes = &cores, s.memory
	return s.err
}

// residentBytes is the current memory of a process; 0 if it has ended or is just ending.
func residentBytes(pid int) (int64, error) {
	program, err := procfs.NewProc(pid)
	if err != nil {
		return 0, ignoreEnded(err)
	}
	stat, err := program.Stat()
	return int64(stat.ResidentMemory()), ignoreEnded(err)
}

func ignoreEnded(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
