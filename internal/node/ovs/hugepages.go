// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Memory that Open vSwitch 3 needs with per-port-memory.
const (
	// portBuffers is the number of buffers of a port: 2048 for each direction's queue, and 16384.
	portBuffers = 2048 + 2048 + 16384
	// bufferOverhead is the size in bytes of a buffer's headers of DPDK and Open vSwitch and its headroom.
	bufferOverhead = 704
	// ownMB is for DPDK itself.
	ownMB = 128
	// portsWithBuffers is the number of ports with buffers: the network card and ktsnd's two.
	portsWithBuffers = 3
)

// memoryMB returns the memory for packets of a link with that MTU, rounded up to a multiple of 64 MB.
func memoryMB(mtu int) int {
	bufferBytes := (mtu+26+1023)/1024*1024 + bufferOverhead
	need := ownMB + portsWithBuffers*portBuffers*bufferBytes>>20
	return (need + 63) / 64 * 64
}

// Hugepages counts the reserved huge pages of one size.
type Hugepages struct {
	SizeKB int `json:"size-kb"`
	Total  int `json:"total"`
	Free   int `json:"free"`
}

// readHugepages reads the sizes from their folder in sysfs.
func readHugepages(dir string) ([]Hugepages, error) {
	names, err := filepath.Glob(filepath.Join(dir, "hugepages-*kB"))
	if err != nil {
		return nil, err
	}
	var all []Hugepages
	for _, name := range names {
		size, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "hugepages-"), "kB"))
		if err != nil {
			continue
		}
		pages := Hugepages{SizeKB: size}
		pages.Total, err = readNumber(filepath.Join(name, "nr_hugepages"))
		if err != nil {
			return nil, err
		}
		pages.Free, err = readNumber(filepath.Join(name, "free_hugepages"))
		if err != nil {
			return nil, err
		}
		all = append(all, pages)
	}
	return all, nil
}

func readNumber(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("count hugepages: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

const hugepagesDir = "/sys/kernel/mm/hugepages"

// checkHugepages fails if less memory is free in huge pages or hugetlbfs is not mounted.
func checkHugepages(needMB int) error {
	all, err := readHugepages(hugepagesDir)
	if err != nil {
		return err
	}
	if err := checkFree(all, needMB); err != nil {
		return err
	}
	if mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("hugetlbfs")); err != nil || len(mounts) == 0 {
		return errors.New("hugetlbfs is not mounted; as root: mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages")
	}
	return nil
}

func checkFree(all []Hugepages, needMB int) error {
	freeMB, pageKB, total, free := 0, 2048, 0, 0
	for _, pages := range all {
		freeMB += pages.Free * pages.SizeKB / 1024
		if pages.SizeKB == pageKB {
			total, free = pages.Total, pages.Free
		}
	}
	if freeMB >= needMB {
		return nil
	}
	need := needMB * 1024 / pageKB
	return fmt.Errorf("ovs-vswitchd needs %d MB of hugepages (%d MB for DPDK, the rest for %d buffers of each of %d ports), %d pages of 2 MB, "+
		"and %d are free; as root: sysctl -w vm.nr_hugepages=%d", needMB, ownMB, portBuffers, portsWithBuffers, need, free, total-free+need)
}
