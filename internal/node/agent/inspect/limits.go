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

// What the process that looks may have beyond what it has when it begins.
const (
	memoryMore = 16 << 20
	// Go's runtime reserves 64 MiB of addresses for a heap that grows, and twice as many where these are not aligned. The heap begins
	// at a random place, so that some processes need that from their fifth MiB on.
	addresses  = 256 << 20
	cpuSeconds = 2
	filesMax   = 64
)

// limit bounds this process for good, before it has read anything that is not the agent's.
func limit() error {
	virtual, data, err := memory()
	if err != nil {
		return fmt.Errorf("look at this process' memory: %w", err)
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

// memory is this process' size in addresses and in memory that it may write to, in bytes.
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
