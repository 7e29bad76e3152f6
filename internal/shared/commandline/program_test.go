// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSibling(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "there"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ executable, file, want string }{
		"next to the program":            {filepath.Join(folder, "ktsn"), "there", filepath.Join(folder, "there")},
		"absent":                         {filepath.Join(folder, "ktsn"), "absent.so", filepath.Join(folder, "absent.so")},
		"of the packages":                {"/usr/bin/ktsn", "absent.so", "/usr/lib/ktsn/absent.so"},
		"of a program in another folder": {"/usr/local/bin/ktsn", "absent.so", "/usr/local/bin/absent.so"},
	} {
		t.Run(name, func(t *testing.T) {
			env := Environment{Executable: test.executable}
			if path := env.Sibling(test.file); path != test.want {
				t.Errorf("got %s, want %s", path, test.want)
			}
		})
	}
}
