// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if text, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/generate.sh"), to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	count := 0
	err = filepath.WalkDir(to, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		count++
		name, err := filepath.Rel(to, path)
		if err != nil {
			return err
		}
		generated, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(generated, committed) {
			t.Errorf("%s is not what is generated (%v); run `make generate`", name, err)
		}
		return nil
	})
	if err != nil || count < 2 {
		t.Errorf("%d files were generated: %v", count, err)
	}
}
