// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// signed makes a folder with two files and their signed checksums.
func signed(t *testing.T, secret, comment string) string {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a"), "a")
	write(t, filepath.Join(folder, "b"), "b")
	write(t, filepath.Join(folder, "SHA256SUMS"), must(t, folder, "sha256sum", "a", "b"))
	must(t, folder, "minisign", "-S", "-s", secret, "-m", "SHA256SUMS", "-t", comment)
	return folder
}

// symlink moves a file out of the folder, and links to it.
func symlink(t *testing.T, folder, name string) {
	t.Helper()
	outside := filepath.Join(t.TempDir(), name)
	if err := errors.Join(os.Rename(filepath.Join(folder, name), outside), os.Symlink(outside, filepath.Join(folder, name))); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func TestVerify(t *testing.T) {
	needs(t, "minisign")
	public, secret := keys(t)
	otherPublic, otherSecret := keys(t)
	const version = "1.2.3"
	type test struct {
		change func(t *testing.T, folder string)
		key    string
		want   string
	}
	extra := func(name string) test {
		return test{func(t *testing.T, folder string) { write(t, filepath.Join(folder, name), "c") }, public, name + " is not part of the release"}
	}
	commentless := filepath.Join(t.TempDir(), "key.pub")
	_, line, _ := strings.Cut(read(t, public), "\n")
	write(t, commentless, line)
	for name, test := range map[string]test{
		"good":      {func(*testing.T, string) {}, public, "kubernetsn 1.2.3 is complete and signed"},
		"wrong key": {func(*testing.T, string) {}, otherPublic, "signed with another key than " + otherPublic},
		"signature of another key": {func(t *testing.T, folder string) {
			must(t, folder, "minisign", "-S", "-s", otherSecret, "-m", "SHA256SUMS", "-t", "kubernetsn "+version)
		}, public, "signed with another key than " + public},
		"changed byte":      {func(t *testing.T, folder string) { write(t, filepath.Join(folder, "b"), "c") }, public, "a file was changed"},
		"changed checksums": {func(t *testing.T, folder string) { write(t, filepath.Join(folder, "SHA256SUMS"), "c") }, public, "SHA256SUMS or its signature was changed"},
		"changed comment": {func(t *testing.T, folder string) {
			file := filepath.Join(folder, "SHA256SUMS.minisig")
			write(t, file, strings.Replace(read(t, file), "kubernetsn "+version, "kubernetsn 1.2.4", 1))
		}, public, "SHA256SUMS or its signature was changed"},
		"missing file":      {func(t *testing.T, folder string) { remove(t, filepath.Join(folder, "b")) }, public, "b is missing"},
		"missing checksums": {func(t *testing.T, folder string) { remove(t, filepath.Join(folder, "SHA256SUMS")) }, public, "SHA256SUMS is missing"},
		"extra file":        extra("c"),
		"extra hidden file": extra(".c"),
		"name with dots":    extra("..c"),
		"name with newline": extra("a\nb"),
		"name of a pattern": extra(".[!.]*"),
		"extra folder":      {func(t *testing.T, folder string) { write(t, filepath.Join(folder, "folder/a"), "a") }, public, "folder is not part of the release"},
		"symlinked file":    {func(t *testing.T, folder string) { symlink(t, folder, "b") }, public, "b is not part of the release"},
		"symlinked signature": {func(t *testing.T, folder string) { symlink(t, folder, "SHA256SUMS.minisig") }, public,
			"SHA256SUMS.minisig is not part of the release"},
		"older version": {func(t *testing.T, folder string) {
			must(t, folder, "minisign", "-S", "-s", secret, "-m", "SHA256SUMS", "-t", "kubernetsn 1.2.2")
		}, public, `this is release "kubernetsn 1.2.2", and not "kubernetsn 1.2.3"`},
		"other product": {func(t *testing.T, folder string) {
			must(t, folder, "minisign", "-S", "-s", secret, "-m", "SHA256SUMS", "-t", "other "+version)
		}, public, `this is release "other 1.2.3"`},
		"no signature": {func(t *testing.T, folder string) { remove(t, filepath.Join(folder, "SHA256SUMS.minisig")) }, public, "is not signed"},
		"unsigned":     {func(t *testing.T, folder string) { write(t, filepath.Join(folder, "UNSIGNED"), "") }, public, "is not signed"},
		"missing key":  {func(*testing.T, string) {}, public + ".gone", "there is no public key"},
		"key alone":    {func(*testing.T, string) {}, commentless, "is no public key of minisign"},
		"damaged signature": {func(t *testing.T, folder string) { write(t, filepath.Join(folder, "SHA256SUMS.minisig"), "?") }, public,
			"signed with another key than " + public},
	} {
		t.Run(name, func(t *testing.T) {
			folder := signed(t, secret, "kubernetsn "+version)
			test.change(t, folder)
			output, err := command(root(t), nil, "packaging/verify.sh", test.key, version, folder)
			if (err == nil) != (name == "good") || !strings.Contains(output, test.want) {
				t.Errorf("got %q, %v, want %q", output, err, test.want)
			}
		})
	}
}
