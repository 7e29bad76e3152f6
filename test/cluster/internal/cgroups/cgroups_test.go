// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestHierarchiesAreFoundAmongTheMounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mountinfo")
	text := "22 27 0:21 / /proc rw - proc proc rw\n" +
		"30 24 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" +
		"31 24 0:27 / /sys/fs/cgroup/systemd rw,relatime shared:4 - cgroup cgroup rw,name=systemd\n" +
		"32 24 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n" +
		"33 24 0:29 / /mnt/cgroup rw,relatime - ext4 /dev/vda rw\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	found, err := Hierarchies(file)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, hierarchy := range found {
		paths = append(paths, hierarchy.Path)
	}
	if want := []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"}; !slices.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
	if !slices.Contains(found[0].Controllers, "cpuacct") {
		t.Errorf("the controllers are %q", found[0].Controllers)
	}
}

func TestWhatIsNotThereIsRemovedAtOnce(t *testing.T) {
	if err := Remove(t.Context(), "ktsnc-nobody-has-this-name"); err != nil {
		t.Error(err)
	}
}
