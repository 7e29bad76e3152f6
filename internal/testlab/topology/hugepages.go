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
	// reservedName is the note with the number of reserved pages, mountName the hugetlbfs.
	reservedName = "hugepages"
	mountName    = "huge"
)

// ReserveHugepages reserves hugepages of 2 MB in addition to existing ones, and mounts a hugetlbfs, whose folder it
// returns. Destroy, or SweepStale, releases them.
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

// ReleaseHugepages releases the pages before the topology is destroyed.
func (t *Topology) ReleaseHugepages() error {
	return errors.Join(releaseHugepages(t.Dir), os.RemoveAll(filepath.Join(t.Dir, mountName)))
}

// releaseHugepages releases the pages of the topology with that folder. It can be repeated.
func releaseHugepages(dir string) error {
	mounted := filepath.Join(dir, mountName)
	err := unix.Unmount(mounted, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", mounted, err)
	}
	return hugepages.GiveBack(filepath.Join(dir, reservedName))
}
