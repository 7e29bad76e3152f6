// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// folder writes definitions of two images, "app" with a shell of package dash and "data" of no package, and returns
// their paths.
func folder(t *testing.T) (path, app, data string) {
	t.Helper()
	path = t.TempDir()
	app, data = filepath.Join(path, "app.yaml"), filepath.Join(path, "data.yaml")
	for file, text := range map[string]string{
		app:  "{name: localhost/x/app, title: a shell, user: '0:0', files: [{path: /usr/bin/sh, source: /bin/sh}]}",
		data: "{name: localhost/x/data, title: data, user: '0:0', files: [{path: /data, source: " + data + "}]}",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path, app, data
}

func needsDpkg(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skip("there is no dpkg")
	}
}

func TestDifferencesFromLock(t *testing.T) {
	needsDpkg(t)
	const libc, dash = "libc6=2.36\n", "dash=0.5\n"
	for name, test := range map[string]struct {
		lock      string
		arguments []string
		// refused and warned are expected in the error and the output; one of them is empty.
		refused, warned string
	}{
		"are warned of":                    {libc + dash, nil, "", "warning: package dash is locked at 0.5, and "},
		"are refused on demand":            {libc + dash, []string{"--locked"}, "package dash is locked at 0.5, and ", ""},
		"are refused with what to do":      {libc + dash, []string{"--locked"}, "Install what is locked", ""},
		"include new packages":             {libc, []string{"--locked"}, "package dash is not locked, and ", ""},
		"include packages no longer there": {"gone=1\n", []string{"--locked"}, "package gone is locked at 1, and images made here have no file of it", ""},
		"need no other flag":               {libc, []string{"--locked", "--write-lock"}, "exclude each other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path, app, data := folder(t)
			lock, out := filepath.Join(path, "debian.lock"), filepath.Join(path, "out")
			if err := os.WriteFile(lock, []byte(test.lock), 0o644); err != nil {
				t.Fatal(err)
			}
			var output strings.Builder
			err := run(append([]string{"--out", out, "--lock", lock}, append(test.arguments, app, data)...), io.Discard, &output)
			if test.refused == "" && err != nil || test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("got %v, want %q", err, test.refused)
			}
			if !strings.Contains(output.String(), test.warned) || test.warned == "" && output.Len() > 0 {
				t.Errorf("it says %q, want %q", output.String(), test.warned)
			}
			if _, err := os.Stat(filepath.Join(out, "app.tar")); (err == nil) != (test.refused == "") {
				t.Errorf("of the image: %v", err)
			}
		})
	}
}

func TestWriteLockNeedsAllImages(t *testing.T) {
	needsDpkg(t)
	path, app, data := folder(t)
	lock := filepath.Join(path, "debian.lock")
	run := func(arguments ...string) error {
		return run(append([]string{"--out", filepath.Join(path, "out"), "--lock", lock}, arguments...), io.Discard, io.Discard)
	}
	if err := run("--write-lock", app); err == nil || !strings.Contains(err.Error(), "were not named: "+data) {
		t.Errorf("of some of the images it is written: %v", err)
	}
	if err := run("--write-lock", app, data); err != nil {
		t.Fatal(err)
	}
	for name, definitions := range map[string][]string{"all": {app, data}, "one": {data}} {
		if err := run(append([]string{"--locked"}, definitions...)...); err != nil {
			t.Errorf("%s of the images is refused: %v", name, err)
		}
	}
}

func TestValuesIncludeOlderImages(t *testing.T) {
	path, app, data := folder(t)
	lock, out := filepath.Join(path, "debian.lock"), filepath.Join(path, "out")
	values := func(definitions ...string) string {
		if err := run(append([]string{"--out", out, "--lock", lock}, definitions...), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(out, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	both := values("--write-lock", app, data)
	if !strings.Contains(both, "app: sha256:") || !strings.Contains(both, "data: sha256:") {
		t.Errorf("of both it names %s", both)
	}
	if name := values(data); name != both {
		t.Errorf("one image made again, it names %s, not %s", name, both)
	}
}

func TestBundle(t *testing.T) {
	path, app, data := folder(t)
	out := filepath.Join(path, "out")
	if err := run([]string{"--out", out, "--lock", filepath.Join(path, "lock"), "--write-lock", app, data}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "all.tar")
	if err := run([]string{"--bundle", file, "--tag", "1.2.3", filepath.Join(out, "app.tar"), filepath.Join(out, "data.tar")}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	values, err := os.ReadFile(filepath.Join(path, "all.yaml"))
	if err != nil || !strings.Contains(string(values), "app: sha256:") || !strings.Contains(string(values), "prefix: localhost/x") {
		t.Errorf("the values are %s, %v", values, err)
	}
}
