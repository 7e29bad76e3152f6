// SPDX-License-Identifier: Apache-2.0

// Package test tests the release: the scripts that make and verify it, and the files of a release that is made of bin/ and out/images/.
// Without those, or the tools, tests are skipped, and fail where KTSN_REQUIRE=1 or CI=true.
package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// missing skips a test that this machine cannot run, or fails it where all must run.
func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("KTSN_REQUIRE") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// needs skips a test if programs are missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, program+" is missing; run `make release-tools`")
		}
	}
}

// root returns the root of the tree.
func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// command runs a program in a folder, with more variables, and returns its output.
func command(folder string, variables []string, name string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...)
	command.Dir, command.Env = folder, append(os.Environ(), variables...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// must runs a program in a folder, and fails the test if it fails.
func must(t *testing.T, folder, name string, arguments ...string) string {
	t.Helper()
	output, err := command(folder, nil, name, arguments...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, output)
	}
	return output
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// repository makes a repository of copies of files and folders of the tree, and of the files that are in the folder already, with one
// commit, and returns the folder. The same files give the same commit in each folder.
func repository(t *testing.T, folder string, paths ...string) string {
	t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		must(t, root(t), "cp", "-rT", path, filepath.Join(folder, path))
	}
	must(t, folder, "git", "init", "-q")
	commitAll(t, folder)
	return folder
}

// commitAll commits all changes of a repository.
func commitAll(t *testing.T, folder string) {
	t.Helper()
	must(t, folder, "git", "add", ".")
	output, err := command(folder, []string{"GIT_AUTHOR_DATE=@1700000000 +0000", "GIT_COMMITTER_DATE=@1700000000 +0000"},
		"git", "-c", "user.name=a", "-c", "user.email=a@example.test", "commit", "-q", "-m", "test")
	if err != nil {
		t.Fatalf("git commit: %v\n%s", err, output)
	}
}

// keys makes a pair of keys of minisign, and returns the files of the public and the secret one.
func keys(t *testing.T) (public, secret string) {
	t.Helper()
	folder := t.TempDir()
	public, secret = filepath.Join(folder, "key.pub"), filepath.Join(folder, "key.sec")
	must(t, folder, "minisign", "-G", "-W", "-p", public, "-s", secret)
	return public, secret
}
