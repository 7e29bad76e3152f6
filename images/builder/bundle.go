// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteBundle writes one OCI archive with the images of other archives, and returns them with the digests by which
// charts name them. Each image is an index with a manifest for each platform; archives of the same image for several
// platforms are joined in it.
func WriteBundle(file, tag string, archives []string) (bundled []Made, err error) {
	folder, err := os.MkdirTemp("", "ktsn-images-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	platforms := map[string][]v1.Descriptor{}
	for _, archive := range archives {
		name, manifest, err := extractImage(archive, folder)
		if err != nil {
			return nil, err
		}
		platforms[name] = append(platforms[name], manifest)
	}
	var entries []v1.Descriptor
	for _, name := range slices.Sorted(maps.Keys(platforms)) {
		index, err := writePlatforms(folder, platforms[name])
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		for _, annotations := range annotationsOf(name+":"+tag, index.Digest) {
			index.Annotations = annotations
			entries = append(entries, index)
		}
		bundled = append(bundled, Made{Name: name, Digest: index.Digest.String()})
	}
	text, err := indexOf(entries)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "index.json"), text, 0o644); err != nil {
		return nil, err
	}
	return bundled, replaceFile(file, func(to io.Writer) error { return writeTar(to, folder) })
}

// extractImage extracts an archive of one image, and returns the image's name and its manifest.
func extractImage(archive, folder string) (string, v1.Descriptor, error) {
	index, err := Extract(archive, folder)
	if err != nil {
		return "", v1.Descriptor{}, err
	}
	if len(index.Manifests) == 0 {
		return "", v1.Descriptor{}, fmt.Errorf("%s: its index.json names no image", archive)
	}
	manifest := index.Manifests[0]
	name, _, _ := strings.Cut(manifest.Annotations[containerdName], ":")
	if name == "" || manifest.Platform == nil {
		return "", v1.Descriptor{}, fmt.Errorf("%s: its index.json has no name or no platform; build it with `make images`", archive)
	}
	manifest.Annotations = nil
	return name, manifest, nil
}

// writePlatforms writes the index of an image, and returns its descriptor.
func writePlatforms(folder string, manifests []v1.Descriptor) (v1.Descriptor, error) {
	slices.SortFunc(manifests, func(a, b v1.Descriptor) int { return cmp.Compare(a.Platform.String(), b.Platform.String()) })
	for i := range manifests[1:] {
		if platform := manifests[i].Platform.String(); platform == manifests[i+1].Platform.String() {
			return v1.Descriptor{}, fmt.Errorf("two archives are for %s; name one", platform)
		}
	}
	text, err := indexOf(manifests)
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(text))
	if err != nil {
		return v1.Descriptor{}, err
	}
	file := filepath.Join(folder, "blobs", digest.Algorithm, digest.Hex)
	return v1.Descriptor{MediaType: types.OCIImageIndex, Digest: digest, Size: size}, os.WriteFile(file, text, 0o644)
}

func indexOf(manifests []v1.Descriptor) ([]byte, error) {
	return json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: manifests})
}

// partOfLayout matches the names of files in an OCI layout.
var partOfLayout = regexp.MustCompile(`^(oci-layout|index\.json|blobs/sha256/[0-9a-f]{64})$`)

// Extract extracts an OCI archive into a folder and returns its index. It fails if a blob differs from its name, its
// digest.
func Extract(archive, folder string) (*v1.IndexManifest, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	defer file.Close()
	if err := os.MkdirAll(filepath.Join(folder, "blobs", "sha256"), 0o755); err != nil {
		return nil, err
	}
	// The folder can have the index of another archive.
	if err := os.Remove(filepath.Join(folder, "index.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s is no archive of images: %w", archive, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := extractFile(reader, header.Name, folder); err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "index.json"))
	if err != nil {
		return nil, fmt.Errorf("%s is no archive of images: it has no index.json", archive)
	}
	return v1.ParseIndexManifest(bytes.NewReader(text))
}

// extractFile extracts a file of a layout into a folder.
func extractFile(from io.Reader, name, folder string) error {
	if !partOfLayout.MatchString(name) {
		return fmt.Errorf("%q is no file of an OCI layout", name)
	}
	to, err := os.Create(filepath.Join(folder, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	digest, _, err := v1.SHA256(io.TeeReader(from, to))
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	if hex, blob := strings.CutPrefix(name, "blobs/sha256/"); blob && hex != digest.Hex {
		return fmt.Errorf("%s was changed: its digest is %s", name, digest)
	}
	return nil
}

// Reference is the name and tag of an image in an archive.
type Reference struct {
	Name  string
	Image v1.Descriptor
}

// References returns the images of an index that have a tag, in the order of the index.
func References(index *v1.IndexManifest) []Reference {
	var all []Reference
	for _, image := range index.Manifests {
		if name := image.Annotations[referenceName]; name != "" {
			all = append(all, Reference{name, image})
		}
	}
	return all
}
