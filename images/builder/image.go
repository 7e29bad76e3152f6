// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// epoch is the date of all entries, because an image must not depend on the time of its build.
var epoch = time.Unix(0, 0).UTC()

// Build builds the image of a definition.
func Build(definition *Definition, sources Sources) (v1.Image, error) {
	entries, err := collect(definition, sources)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", definition.Name, err)
	}
	content, err := writeLayer(entries)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", definition.Name, err)
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("image %s: make layer: %w", definition.Name, err)
	}
	labels := map[string]string{"org.opencontainers.image.title": definition.Title}
	installed, err := installedPackages(entries)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", definition.Name, err)
	}
	if len(installed) > 0 {
		labels[packagesLabel] = installed.String()
	}
	return assemble(definition, layer, labels)
}

func assemble(definition *Definition, layer v1.Layer, labels map[string]string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "ktsn-images"},
	})
	if err != nil {
		return nil, fmt.Errorf("image %s: append layer: %w", definition.Name, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", definition.Name, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{
		User:       definition.User,
		Entrypoint: definition.Entrypoint,
		Env:        definition.Environment,
		WorkingDir: "/",
		Labels:     labels,
	}
	return mutate.ConfigFile(image, config)
}

// writeLayer returns the tar archive of a layer.
func writeLayer(entries map[string]entry) ([]byte, error) {
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	for _, at := range slices.Sorted(maps.Keys(entries)) {
		if err := writeEntry(archive, at, entries[at]); err != nil {
			return nil, fmt.Errorf("write %s: %w", at, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

func writeEntry(archive *tar.Writer, at string, e entry) error {
	header := &tar.Header{
		Name:     strings.TrimPrefix(at, "/"),
		Mode:     int64(e.mode & 0o7777),
		ModTime:  epoch,
		Format:   tar.FormatPAX,
		Typeflag: tar.TypeReg,
		Size:     e.size,
	}
	switch {
	case e.mode.IsDir():
		header.Typeflag, header.Size, header.Name = tar.TypeDir, 0, header.Name+"/"
	case e.target != "":
		header.Typeflag, header.Size, header.Linkname = tar.TypeSymlink, 0, e.target
	}
	if err := archive.WriteHeader(header); err != nil || e.source == "" {
		return err
	}
	file, err := os.Open(e.source)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(archive, file)
	return err
}
