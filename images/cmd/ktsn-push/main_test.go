// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kubernetsn/kubernetsn/images/builder"
)

// startRegistry starts a registry in this process and returns its HOST:PORT.
func startRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// bundle writes a bundle of two images, and returns its path and the images.
func bundle(t *testing.T) (string, []builder.Made) {
	t.Helper()
	folder := t.TempDir()
	data := filepath.Join(folder, "data")
	if err := os.WriteFile(data, []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	var archives []string
	for _, base := range []string{"ktsnd", "ktsn-agent"} {
		image, err := builder.Build(&builder.Definition{
			Name: "localhost/kubernetsn/" + base, Title: base, User: "0:0", Files: []builder.File{{Path: "/" + base, Source: data}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, filepath.Join(folder, base+".tar"))
		if err := builder.WriteArchive(archives[len(archives)-1], "localhost/kubernetsn/"+base+":dev", image); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(folder, "kubernetsn-images.tar")
	bundled, err := builder.WriteBundle(file, "1.2.3", archives)
	if err != nil {
		t.Fatal(err)
	}
	return file, bundled
}

func TestPushToRegistry(t *testing.T) {
	archive, bundled := bundle(t)
	prefix := startRegistry(t) + "/some/where"
	var output bytes.Buffer
	if err := run(t.Context(), []string{archive, prefix + "/"}, &output, io.Discard); err != nil {
		t.Fatal(err)
	}
	if want := "--set image.prefix=" + prefix + "\n"; !strings.HasSuffix(output.String(), want) {
		t.Errorf("it prints %q, want %q at the end", output.String(), want)
	}
	for _, image := range bundled {
		base := filepath.Base(image.Name)
		for _, reference := range []string{prefix + "/" + base + "@" + image.Digest, prefix + "/" + base + ":1.2.3"} {
			to, err := name.ParseReference(reference)
			if err != nil {
				t.Fatal(err)
			}
			// A runtime fetches the image of its platform.
			pulled, err := remote.Image(to)
			if err != nil {
				t.Errorf("%s: %v", reference, err)
				continue
			}
			if layers, err := pulled.Layers(); err != nil || len(layers) != 1 {
				t.Errorf("%s has layers %v, %v", reference, layers, err)
			}
		}
	}
}

func TestPushErrors(t *testing.T) {
	archive, _ := bundle(t)
	text := filepath.Join(t.TempDir(), "text.tar")
	if err := os.WriteFile(text, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"no place":          {[]string{archive}, "name an archive and where its images go"},
		"no registry":       {[]string{archive, "kubernetsn"}, "is no place for images"},
		"invalid place":     {[]string{archive, "Some Where"}, "is no place for images"},
		"no archive":        {[]string{text, "127.0.0.1:1/x"}, "is no archive of images"},
		"absent registry":   {[]string{archive, "127.0.0.1:1/x"}, "connection refused"},
		"file that is gone": {[]string{text + ".gone", "127.0.0.1:1/x"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), test.arguments, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestPushVersion(t *testing.T) {
	var output bytes.Buffer
	if err := run(t.Context(), []string{"--version"}, &output, io.Discard); err != nil || !strings.HasPrefix(output.String(), "ktsn-push unknown version (go1") {
		t.Errorf("got %q, %v", output.String(), err)
	}
}
