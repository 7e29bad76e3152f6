// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Annotations of an index that name an image: containerd's, and that of the OCI image specification.
const (
	containerdName = "io.containerd.image.name"
	referenceName  = "org.opencontainers.image.ref.name"
)

// WriteArchive writes an OCI archive (the layout of the OCI image specification in a tar file) for `ctr images import`
// and `skopeo copy oci-archive:`. reference is the image's name and tag. An existing file is replaced when the new one
// is complete.
func WriteArchive(file, reference string, image v1.Image) error {
	err := replaceFile(file, func(to io.Writer) error { return writeLayout(to, reference, image) })
	if err != nil {
		return fmt.Errorf("write image %s: %w", reference, err)
	}
	return nil
}

// replaceFile replaces a file by what write writes, once that is complete.
func replaceFile(file string, write func(io.Writer) error) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".image-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	if err := write(temporary); err != nil {
		return errors.Join(err, temporary.Close())
	}
	if err := errors.Join(temporary.Chmod(0o644), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}

// writeLayout writes the layout of an image to a tar file. Its index names the image for containerd and as the
// specification says.
func writeLayout(to io.Writer, reference string, image v1.Image) (err error) {
	folder, err := os.MkdirTemp("", "ktsn-images-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	for _, annotations := range annotationsOf(reference, digest) {
		platform := layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"})
		if err := path.AppendImage(image, layout.WithAnnotations(annotations), platform); err != nil {
			return err
		}
	}
	return writeTar(to, folder)
}

// annotationsOf returns the annotations of both entries that an image has in an index: a node that imports the archive
// also knows the image by the name with the digest, which charts use.
func annotationsOf(reference string, digest v1.Hash) []map[string]string {
	name, _, _ := strings.Cut(reference, ":")
	return []map[string]string{
		{containerdName: reference, referenceName: reference},
		{containerdName: name + "@" + digest.String()},
	}
}

// writeTar writes the files of a folder to a tar file, sorted and without owner and date.
func writeTar(to io.Writer, folder string) error {
	archive := tar.NewWriter(to)
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, at)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: at, Mode: 0o644, Size: int64(len(content)), ModTime: epoch, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close())
}

// readArchive reads the name and digest of the image in an archive.
func readArchive(file string) (Made, error) {
	archive, err := os.Open(file)
	if err != nil {
		return Made{}, fmt.Errorf("read image: %w", err)
	}
	defer archive.Close()
	reader := tar.NewReader(archive)
	for header := (&tar.Header{}); header.Name != "index.json"; {
		if header, err = reader.Next(); err != nil {
			return Made{}, fmt.Errorf("%s is no archive of an image (%w); remove it", file, err)
		}
	}
	var index v1.IndexManifest
	if err := json.NewDecoder(reader).Decode(&index); err != nil {
		return Made{}, fmt.Errorf("%s: read index.json (%w); remove the archive", file, err)
	}
	if len(index.Manifests) == 0 {
		return Made{}, fmt.Errorf("%s: its index.json names no image; remove the archive", file)
	}
	name, _, _ := strings.Cut(index.Manifests[0].Annotations[containerdName], ":")
	return Made{Name: name, Digest: index.Manifests[0].Digest.String()}, nil
}
