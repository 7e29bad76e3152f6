// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write creates a file in a folder of the test and returns its path.
func write(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

// archive builds an image and returns its archive.
func archive(t *testing.T, definition *Definition, sources Sources) []byte {
	t.Helper()
	image, err := Build(definition, sources)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := WriteArchive(file, definition.Name+":test", image); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// files reads a tar archive.
func files(t *testing.T, from io.Reader) map[string]*tar.Header {
	t.Helper()
	headers := map[string]*tar.Header{}
	for reader := tar.NewReader(from); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
	}
}

// layer returns the layer of an archive: the only blob that is not JSON.
func layer(t *testing.T, content []byte) map[string]*tar.Header {
	t.Helper()
	for reader := tar.NewReader(bytes.NewReader(content)); ; {
		if _, err := reader.Next(); err != nil {
			t.Fatal("the archive has no layer")
		}
		if unpacked, err := gzip.NewReader(reader); err == nil {
			return files(t, unpacked)
		}
	}
}

func TestBuildIsReproducible(t *testing.T) {
	definition := &Definition{
		Name: "example.test/app", Title: "an app", User: "65532:65532",
		Files:       []File{{Path: "/bin/", Source: "$APP/*"}, {Path: "/usr/bin/sh", Source: "/bin/sh"}},
		Directories: []Directory{{Path: "/tmp", Mode: "1777"}},
	}
	build := func() []byte {
		folder := t.TempDir()
		for _, name := range []string{"b", "a"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		return archive(t, definition, Sources{"APP": folder})
	}
	if first, second := build(), build(); !bytes.Equal(first, second) {
		t.Errorf("%d and %d bytes differ", len(first), len(second))
	}
}

func TestLibrariesAreIncluded(t *testing.T) {
	content := archive(t, &Definition{
		Name: "example.test/sh", Title: "a shell", User: "0:0",
		Files: []File{{Path: "/usr/bin/sh", Source: "/bin/sh"}},
	}, nil)
	inside := layer(t, content)
	var libc, loader bool
	for name := range inside {
		libc = libc || strings.HasSuffix(name, "/libc.so.6")
		loader = loader || strings.HasPrefix(filepath.Base(name), "ld-linux")
	}
	if !libc || !loader {
		t.Errorf("libc: %v, loader: %v, in %d files", libc, loader, len(inside))
	}
	if header := inside["usr/bin/sh"]; header == nil || header.Mode != 0o755 || header.Uid != 0 {
		t.Errorf("the program is %+v", header)
	}
}

func TestEqualFilesAreLinked(t *testing.T) {
	library := write(t, "lib.so.1", "a library", 0o644)
	link := filepath.Join(filepath.Dir(library), "lib.so")
	if err := os.Symlink("lib.so.1", link); err != nil {
		t.Fatal(err)
	}
	inside := layer(t, archive(t, &Definition{
		Name: "example.test/lib", Title: "a library", User: "0:0",
		Files: []File{{Path: "/lib/lib.so.1", Source: library}, {Path: "/plugins/lib.so", Source: link}},
		Links: []Link{{Path: "/var/run", To: "/run"}},
	}, nil))
	for name, want := range map[string]string{"plugins/lib.so": "/lib/lib.so.1", "var/run": "/run"} {
		if header := inside[name]; header == nil || header.Typeflag != tar.TypeSymlink || header.Linkname != want {
			t.Errorf("%s is %+v, want a link to %s", name, header, want)
		}
	}
}

func TestArchiveNamesImage(t *testing.T) {
	content := archive(t, &Definition{
		Name: "example.test/app", Title: "an app", User: "65532:65532", Entrypoint: []string{"/app"},
		Files: []File{{Path: "/app", Source: write(t, "app", "an app", 0o755)}},
	}, nil)
	inside := files(t, bytes.NewReader(content))
	if inside["oci-layout"] == nil || inside["index.json"] == nil {
		t.Fatalf("no OCI layout in %v", inside)
	}
	var index struct {
		Manifests []struct{ Annotations map[string]string }
	}
	reader := tar.NewReader(bytes.NewReader(content))
	for name := ""; name != "index.json"; {
		header, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		name = header.Name
	}
	if err := json.NewDecoder(reader).Decode(&index); err != nil {
		t.Fatal(err)
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != "example.test/app:test" {
		t.Errorf("its name is %q", got)
	}
}

func TestFingerprint(t *testing.T) {
	file := write(t, "app", "an app", 0o755)
	definition := &Definition{Name: "example.test/app", Title: "an app", User: "0:0", Files: []File{{Path: "/app", Source: file}}}
	var seen []string
	fingerprint := func() string {
		sum, err := Fingerprint(definition, nil)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	seen = append(seen, fingerprint())
	if fingerprint() != seen[0] {
		t.Error("it changes by itself")
	}
	definition.User = "1:1"
	seen = append(seen, fingerprint())
	if err := os.WriteFile(file, []byte("another app"), 0o755); err != nil {
		t.Fatal(err)
	}
	seen = append(seen, fingerprint())
	if slices.Sort(seen); len(slices.Compact(seen)) != 3 {
		t.Errorf("different images have the same: %q", seen)
	}
}

func TestInvalidDefinitionIsRejected(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a field that is not known": {"name: a\ntitle: b\nuser: '0:0'\nfile: []", `unknown field "file"`},
		"a name with a tag":         {"name: a:b\ntitle: b\nuser: '0:0'\nfiles: [{path: /a, source: /a}]", `"a:b" is no image name`},
		"a user without a group":    {"name: a\ntitle: b\nuser: '0'\nfiles: [{path: /a, source: /a}]", `"0" is not UID:GID`},
		"a path that is relative":   {"name: a\ntitle: b\nuser: '0:0'\nfiles: [{path: a, source: /a}]", `files[0].path: "a" is not absolute`},
		"no files":                  {"name: a\ntitle: b\nuser: '0:0'", "files: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(write(t, "definition.yaml", test.text, 0o644))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestMissingSourceIsReported(t *testing.T) {
	for name, test := range map[string]struct{ source, want string }{
		"a variable without a value": {"$NOWHERE/app", "nobody gave $NOWHERE a value"},
		"a file that was not built":  {"$BIN/app", "no such file; build it first"},
		"a path that is relative":    {"bin/app", "source bin/app: not absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			definition := &Definition{Name: "a", Title: "b", User: "0:0", Files: []File{{Path: "/app", Source: test.source}}}
			_, err := Build(definition, Sources{"BIN": t.TempDir()})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestProjectDefinitions(t *testing.T) {
	for _, pattern := range []string{"../*.yaml", "../../test/cluster/images/*.yaml"} {
		existing, err := filepath.Glob(pattern)
		if err != nil || len(existing) == 0 {
			t.Fatalf("%s: %v, %v", pattern, existing, err)
		}
		for _, file := range existing {
			if _, err := Load(file); err != nil {
				t.Error(err)
			}
		}
	}
}

// programs returns the folder of the project's programs for `make images`.
func programs(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(cmp.Or(os.Getenv("KTSN_BIN_DIR"), "../../bin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "slim/libktsn.so")); err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("KTSN_REQUIRE") == "1" {
			t.Fatal(err)
		}
		t.Skipf("%v; run `make images`", err)
	}
	return dir
}

func TestProjectImagesAreReproducible(t *testing.T) {
	built := programs(t)
	// The same programs from another build: in another folder, later, with other modes.
	elsewhere := t.TempDir()
	for _, name := range []string{"ktsnd", "ktsn", "ktsn-agent", "ktsn-operator", "ktsn-guest", "ktsn-kubevirt", "ktsn-federator", "ktsn-ptp", "ktsn-realtime", "ktsn-wait", "ktsn-relay", "ktsn-relay-vhost", "tsn-cni", "tsnperf",
		"example-c-sender", "example-c-receiver", "example-go-send", "example-go-receive", "libktsn.so", "slim/libktsn.so"} {
		content, err := os.ReadFile(filepath.Join(built, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(elsewhere, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(elsewhere, name), content, 0o700); err != nil {
			t.Fatal(err)
		}
		if root := filepath.Dir(built); bytes.Contains(content, []byte(root+"/")) {
			t.Errorf("%s names %s, where it was built, and would be another file elsewhere", name, root)
		}
	}
	definitions, err := filepath.Glob("../*.yaml")
	if err != nil || len(definitions) == 0 {
		t.Fatal(definitions, err)
	}
	for _, file := range definitions {
		definition, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		var digests []string
		for _, dir := range []string{built, elsewhere} {
			image, err := Build(definition, Sources{"BIN": dir})
			if err != nil {
				t.Fatal(err)
			}
			digest, err := image.Digest()
			if err != nil {
				t.Fatal(err)
			}
			digests = append(digests, digest.String())
		}
		if digests[0] != digests[1] {
			t.Errorf("%s: built twice, the digests are %q", definition.Name, digests)
		}
	}
}

func TestArchiveNamesTagAndDigest(t *testing.T) {
	reader := tar.NewReader(bytes.NewReader(archive(t, &Definition{
		Name: "example.test/app", Title: "an app", User: "0:0",
		Files: []File{{Path: "/app", Source: write(t, "app", "an app", 0o755)}},
	}, nil)))
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	for header, err := reader.Next(); header.Name != "index.json"; header, err = reader.Next() {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := json.NewDecoder(reader).Decode(&index); err != nil || len(index.Manifests) != 2 {
		t.Fatalf("the index is %+v, %v", index, err)
	}
	tag, digest := index.Manifests[0], index.Manifests[1]
	const name = "io.containerd.image.name"
	if tag.Annotations[name] != "example.test/app:test" || digest.Annotations[name] != "example.test/app@"+tag.Digest || digest.Digest != tag.Digest {
		t.Errorf("the index is %+v", index)
	}
}

func TestParseLdd(t *testing.T) {
	existing, err := parseLdd("app", "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n")
	if want := []string{"/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"}; err != nil || !slices.Equal(existing, want) {
		t.Errorf("got %q, %v, want %q", existing, err, want)
	}
	if _, err := parseLdd("app", "\tlibx.so => not found\n"); err == nil || !strings.Contains(err.Error(), "libx.so") {
		t.Errorf("got %v", err)
	}
}
