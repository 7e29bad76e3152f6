// SPDX-License-Identifier: Apache-2.0

package test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestPreviousRelease(t *testing.T) {
	needs(t, "git", "make")
	folder := t.TempDir()
	write(t, filepath.Join(folder, "Makefile"), "release:\n\t@mkdir -p out/release && cp version out/release/\n")
	write(t, filepath.Join(folder, ".gitignore"), "/build-*/\n/out/\n")
	write(t, filepath.Join(folder, "version"), "first")
	repository(t, folder, "scripts/previous-release.sh")

	output := must(t, folder, "scripts/previous-release.sh")
	if !strings.HasPrefix(output, "There is no release yet") {
		t.Errorf("without a tag it prints %q", output)
	}
	must(t, folder, "git", "tag", "v0.1.0")
	commit := strings.TrimSpace(must(t, folder, "git", "rev-parse", "HEAD"))
	write(t, filepath.Join(folder, "version"), "second")
	commitAll(t, folder)
	// An interrupted clone.
	clone := filepath.Join(folder, "build-previous", commit)
	must(t, folder, "git", "clone", "-q", "--no-checkout", ".", clone+".new")
	for range 2 {
		if output := must(t, folder, "scripts/previous-release.sh"); output != clone+"\n" {
			t.Errorf("it prints %q, want %s", output, clone)
		}
		if text := read(t, filepath.Join(clone, "out/release/version")); text != "first" {
			t.Errorf("the release is of the commit %q", text)
		}
	}
	if output, err := command(folder, []string{"PREVIOUS=v0.0.1"}, "scripts/previous-release.sh"); err == nil || !strings.Contains(output, "has no commit v0.0.1") {
		t.Errorf("got %q, %v", output, err)
	}
}
