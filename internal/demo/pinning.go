// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// notPinned stands for a CPU that was not chosen.
const notPinned = -1

// pinning is where programs run: talker and ktsnd together, as they would on a node, and the listener,
// which spins, on another core.
type pinning struct {
	sender   int
	listener int
}

// choosePinning takes the first two processors that this process may use. With one there is nothing to
// choose: the spinning listener then disturbs everything else.
func choosePinning() (pinning, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return pinning{}, fmt.Errorf("read which processors may be used: %w", err)
	}
	var first []int
	for cpu := 0; cpu < len(allowed)*64 && len(first) < 2; cpu++ {
		if allowed.IsSet(cpu) {
			first = append(first, cpu)
		}
	}
	if len(first) < 2 {
		return pinning{notPinned, notPinned}, nil
	}
	return pinning{first[0], first[1]}, nil
}

func (p pinning) pinned() bool { return p.sender != notPinned }
