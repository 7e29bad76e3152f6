// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestPackagesOf(t *testing.T) {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skip("there is no dpkg")
	}
	image, err := Build(&Definition{
		Name: "example.test/app", Title: "an app", User: "0:0",
		Files: []File{{Path: "/usr/bin/sh", Source: "/bin/sh"}, {Path: "/app", Source: write(t, "app", "of no package", 0o755)}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	reported := strings.Fields(config.Config.Labels[packagesLabel])
	var names []string
	for _, item := range reported {
		name, version, _ := strings.Cut(item, "=")
		has, err := exec.Command("dpkg-query", "--show", "--showformat=${Version}", name).Output()
		if err != nil || version == "" || string(has) != version {
			t.Errorf("%s is %q here, %v", item, has, err)
		}
		names = append(names, name)
	}
	if !slices.Equal(names, []string{"dash", "libc6"}) {
		t.Errorf("it says %q", reported)
	}
}

func TestParseOwners(t *testing.T) {
	text := "libc6:amd64: /lib/libc.so.6\na, b: /usr/bin/x\ndiversion by dash from: /bin/sh\ndiversion by dash to: /bin/sh.distrib\nc: /usr/bin/xy\n"
	got := parseOwners(text, map[string]bool{"/lib/libc.so.6": true, "/usr/bin/x": true, "/bin/sh": true})
	if !slices.Equal(got, []string{"a", "b", "libc6:amd64"}) {
		t.Errorf("got %q", got)
	}
}
