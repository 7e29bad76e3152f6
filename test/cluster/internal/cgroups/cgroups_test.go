// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHierarchies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mountinfo")
	text := "22 27 0:21 / /proc rw - proc proc rw\n" +
		"30 24 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" +
		"31 24 0:27 / /sys/fs/cgroup/systemd rw,relatime shared:4 - cgroup cgroup rw,name=systemd\n" +
		"32 24 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n" +
		"33 24 0:29 / /mnt/cgroup rw,relatime - ext4 /dev/vda rw\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	hierarchies, err := Hierarchies(file)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, hierarchy := range hierarchies {
		paths = append(paths, hierarchy.Path)
	}
	if want := []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"}; !slices.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
	if !slices.Contains(hierarchies[0].Controllers, "cpuacct") {
		t.Errorf("the controllers are %q", hierarchies[0].Controllers)
	}
}

// unified creates a folder like the root of a cgroup hierarchy of version 2.
func unified(t *testing.T, controllers string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "cgroup.controllers"), []byte(controllers+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestVersion(t *testing.T) {
	const v1 = "30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"31 24 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" +
		"32 24 0:28 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n" +
		"33 24 0:29 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n" +
		"34 24 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
	const memory = "35 24 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	v2 := func(controllers string) string {
		return "36 24 0:32 / " + unified(t, controllers) + " rw - cgroup2 cgroup2 rw\n"
	}
	for name, test := range map[string]struct {
		mounts string
		want   int
		says   string
	}{
		"of a unified host it is 2":                             {v2("cpuset cpu io memory hugetlb pids"), 2, ""},
		"of a hybrid host with all controllers in 1 it is 1":    {v1 + memory + v2(""), 1, ""},
		"of a host without any of version 2 it is 1":            {v1 + memory, 1, ""},
		"a controller in the other version is refused":          {v1 + v2("memory"), 0, `"memory" is one of cgroup v2, and cpu one of v1`},
		"a controller that is in none is refused":               {v2("cpu cpuset pids"), 0, `controller "memory"`},
		"a machine without hierarchies is refused":              {"22 27 0:21 / /proc rw - proc proc rw\n", 0, `controller "cpu"`},
		"a part of the hierarchy of version 2 does not do here": {strings.Replace(v2("cpu cpuset memory pids"), " / ", " /part ", 1), 0, `controller "cpu"`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "mountinfo")
			if err := os.WriteFile(file, []byte(test.mounts), 0o644); err != nil {
				t.Fatal(err)
			}
			all, err := Hierarchies(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := VersionOf(all)
			if got != test.want || (err == nil) != (test.says == "") || (err != nil && !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %d, %v; want %d, %q", got, err, test.want, test.says)
			}
		})
	}
}

func TestRemoveMissing(t *testing.T) {
	if err := Remove(t.Context(), "ktsnc-nobody-has-this-name"); err != nil {
		t.Error(err)
	}
}
