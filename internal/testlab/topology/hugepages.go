// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/hugepages"
)

const (
	// reservedName is the note of how many pages a topology has set aside, mountName its hugetlbfs.
	reservedName = "hugepages"
	mountName    = "huge"
)

// ReserveHugepages sets so many hugepages of 2 MB aside, beside those that are there, and mounts a hugetlbfs, whose
// folder it returns. Destroy, or SweepStale, gives them back. The error is one sentence where the machine has none.
func (t *Topology) ReserveHugepages(pages int) (dir string, err error) {
	dir = filepath.Join(t.Dir, mountName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := unix.Mount("none", dir, "hugetlbfs", 0, "pagesize=2M"); err != nil {
		return "", fmt.Errorf("mount a hugetlbfs: %w", err)
	}
	return dir, hugepages.SetAside(filepath.Join(t.Dir, reservedName), pages)
}

// ReleaseHugepages gives them back before the topology goes.
func (t *Topology) ReleaseHugepages() error {
	return errors.Join(releaseHugepages(t.Dir), os.RemoveAll(filepath.Join(t.Dir, mountName)))
}

// releaseHugepages gives back what the topology of that folder has reserved. Repeating it does nothing.
func releaseHugepages(dir string) error {
	mounted := filepath.Join(dir, mountName)
	err := unix.Unmount(mounted, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", mounted, err)
	}
	return hugepages.GiveBack(filepath.Join(dir, reservedName))
}
