// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
)

// pinning is the processors of programs: talkers and ktsnd together, as on a node, and the listener, which busy-waits,
// on another core.
type pinning struct {
	sender   int
	listener int
	// polling is for Open vSwitch's polling thread, which is never idle: a third processor, or the listener's if there
	// are two.
	polling int
}

// choosePinning takes the requested processors, or the first two that this process may use. With one there is no
// choice: the busy-waiting listener then disturbs everything else.
func choosePinning(wanted engine.Pinning) (pinning, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return pinning{}, fmt.Errorf("read which processors may be used: %w", err)
	}
	switch wanted.Mode {
	case engine.PinNone:
		return pinning{traffic.NotPinned, traffic.NotPinned, traffic.NotPinned}, nil
	case engine.PinGiven:
		for _, cpu := range []int{wanted.Sender, wanted.Listener} {
			if cpu < 0 || !allowed.IsSet(cpu) {
				return pinning{}, fmt.Errorf("pinning to processor %d, which this process may not use; "+
					"`taskset -p $$` shows those that it may", cpu)
			}
		}
		return pinning{wanted.Sender, wanted.Listener, pollingCPU(&allowed, wanted.Sender, wanted.Listener)}, nil
	}
	var first []int
	for cpu := 0; cpu < len(allowed)*64 && len(first) < 2; cpu++ {
		if allowed.IsSet(cpu) {
			first = append(first, cpu)
		}
	}
	if len(first) < 2 {
		return pinning{traffic.NotPinned, traffic.NotPinned, traffic.NotPinned}, nil
	}
	return pinning{first[0], first[1], pollingCPU(&allowed, first[0], first[1])}, nil
}

// pollingCPU returns a processor that neither uses, or the listener's.
func pollingCPU(allowed *unix.CPUSet, sender, listener int) int {
	for cpu := range len(allowed) * 64 {
		if allowed.IsSet(cpu) && cpu != sender && cpu != listener {
			return cpu
		}
	}
	return listener
}
