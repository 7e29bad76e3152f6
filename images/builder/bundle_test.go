// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// archives writes archives of images localhost/x/NAME and returns their paths.
func archives(t *testing.T, names ...string) []string {
	t.Helper()
	folder := t.TempDir()
	var all []string
	for _, name := range names {
		image, err := Build(&Definition{
			Name: "localhost/x/" + name, Title: "an app", User: "0:0",
			Files: []File{{Path: "/app", Source: write(t, "app", name, 0o755)}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, name+".tar")
		if err := WriteArchive(file, "localhost/x/"+name+":dev", image); err != nil {
			t.Fatal(err)
		}
		all = append(all, file)
	}
	return all
}

// bundle writes a bundle of images and returns its path and the images.
func bundle(t *testing.T, names ...string) (string, []Made) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.tar")
	bundled, err := WriteBundle(file, "1.2.3", archives(t, names...))
	if err != nil {
		t.Fatal(err)
	}
	return file, bundled
}

func TestBundleNamesEachImage(t *testing.T) {
	file, bundled := bundle(t, "b", "a")
	folder := t.TempDir()
	index, err := Extract(file, folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range index.Manifests {
		names = append(names, entry.Annotations["io.containerd.image.name"])
	}
	want := []string{"localhost/x/a:1.2.3", "localhost/x/a@" + bundled[0].Digest, "localhost/x/b:1.2.3", "localhost/x/b@" + bundled[1].Digest}
	if got := strings.Join(names, " "); got != strings.Join(want, " ") {
		t.Errorf("the names are %s, want %s", got, want)
	}
	references := References(index)
	if len(references) != 2 || references[0].Name != "localhost/x/a:1.2.3" || references[1].Image.Digest.String() != bundled[1].Digest {
		t.Errorf("the references are %v", references)
	}
	text, err := os.ReadFile(filepath.Join(folder, "blobs", "sha256", references[0].Image.Digest.Hex))
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := v1.ParseIndexManifest(bytes.NewReader(text))
	if err != nil || len(platforms.Manifests) != 1 || platforms.Manifests[0].Platform.String() != "linux/amd64" {
		t.Errorf("the index of an image is %s, %v", text, err)
	}
}

func TestBundleIsReproducible(t *testing.T) {
	var contents [][]byte
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
		file, _ := bundle(t, names...)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, content)
	}
	if !bytes.Equal(contents[0], contents[1]) {
		t.Error("two bundles of the same images differ")
	}
}

func TestBundleRefusesTwoArchivesOfOnePlatform(t *testing.T) {
	first := archives(t, "a")[0]
	_, err := WriteBundle(filepath.Join(t.TempDir(), "all.tar"), "1", []string{first, first})
	if err == nil || !strings.Contains(err.Error(), "two archives are for linux/amd64") {
		t.Errorf("got %v", err)
	}
}

func TestBundleRefusesArchiveWithoutIndex(t *testing.T) {
	_, err := WriteBundle(filepath.Join(t.TempDir(), "all.tar"), "1", []string{archives(t, "a")[0], tarOf(t, "oci-layout", "{}")})
	if err == nil || !strings.Contains(err.Error(), "it has no index.json") {
		t.Errorf("got %v", err)
	}
}

func TestPlatformsOfAnImage(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "blobs", "sha256"), 0o755); err != nil {
		t.Fatal(err)
	}
	amd64, arm64 := v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}, v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}
	first, err := writePlatforms(folder, []v1.Descriptor{amd64, arm64})
	if err != nil {
		t.Fatal(err)
	}
	second, err := writePlatforms(folder, []v1.Descriptor{arm64, amd64})
	if err != nil || first.Digest != second.Digest {
		t.Errorf("the order of archives changes the digest from %s to %s, %v", first.Digest, second.Digest, err)
	}
}

// tarOf writes a tar file with one file.
func tarOf(t *testing.T, name, content string) string {
	t.Helper()
	var text bytes.Buffer
	archive := tar.NewWriter(&text)
	if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, "image.tar", text.String(), 0o644)
}

func TestExtractErrors(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"no tar file":           {write(t, "image.tar", "something else", 0o644), "is no archive of images"},
		"no index":              {tarOf(t, "oci-layout", "{}"), "it has no index.json"},
		"path outside":          {tarOf(t, "../index.json", "{}"), "is no file of an OCI layout"},
		"changed blob":          {tarOf(t, "blobs/sha256/"+strings.Repeat("0", 64), "content"), "was changed: its digest is sha256:ed7002b4"},
		"index that is no JSON": {tarOf(t, "index.json", "?"), "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Extract(test.file, t.TempDir()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
