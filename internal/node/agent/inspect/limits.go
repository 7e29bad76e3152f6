// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits of the inspecting process, in addition to its use at the start.
const (
	memoryMore = 16 << 20
	// The Go runtime reserves 64 MiB of addresses for a growing heap, and twice as many if they are not aligned. The
	// heap begins at a random address, so that some processes need them after 4 MiB.
	addresses  = 256 << 20
	cpuSeconds = 2
	filesMax   = 64
)

// setLimits limits this process permanently, before it reads data of the pod.
func setLimits() error {
	virtual, data, err := memory()
	if err != nil {
		return fmt.Errorf("read this process' memory use: %w", err)
	}
	var all error
	for resource, most := range map[int]uint64{
		unix.RLIMIT_AS: virtual + addresses, unix.RLIMIT_DATA: data + memoryMore, unix.RLIMIT_CPU: cpuSeconds,
		unix.RLIMIT_NOFILE: filesMax, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_CORE: 0,
	} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			all = errors.Join(all, fmt.Errorf("set resource limit %d: %w", resource, err))
		}
	}
	return all
}

// memory returns the size of this process' address space and of its writable memory, in bytes.
func memory() (virtual, data uint64, err error) {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		var kib uint64
		if name != "VmSize" && name != "VmData" {
			continue
		}
		if _, err := fmt.Sscan(rest, &kib); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", name, err)
		}
		if name == "VmSize" {
			virtual = kib << 10
		} else {
			data = kib << 10
		}
	}
	return virtual, data, lines.Err()
}
