// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteArchive writes an OCI archive (the layout of the OCI image specification in a tar file) for `ctr images import`
// and `skopeo copy oci-archive:`. reference is the image's name and tag. An existing file is replaced when the new one
// is complete.
func WriteArchive(file, reference string, image v1.Image) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".image-*")
	if err != nil {
		return fmt.Errorf("write image %s: %w", reference, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write image %s: %w", reference, err), os.Remove(temporary.Name()))
		}
	}()
	if err := writeLayout(temporary, reference, image); err != nil {
		return errors.Join(err, temporary.Close())
	}
	if err := errors.Join(temporary.Chmod(0o644), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}

func writeLayout(to io.Writer, reference string, image v1.Image) error {
	archive := tar.NewWriter(to)
	index, err := indexOf(reference, image)
	if err != nil {
		return err
	}
	if err := writeBlob(archive, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	if err := writeBlob(archive, "index.json", index); err != nil {
		return err
	}
	if err := writeManifest(archive, image); err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		if err := writeCompressed(archive, layer); err != nil {
			return err
		}
	}
	return archive.Close()
}

// indexOf returns the index, which names the image for containerd and as the specification says.
func indexOf(reference string, image v1.Image) ([]byte, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	size, err := image.Size()
	if err != nil {
		return nil, err
	}
	byTag := v1.Descriptor{
		MediaType: types.OCIManifestSchema1,
		Digest:    digest,
		Size:      size,
		Platform:  &v1.Platform{OS: "linux", Architecture: "amd64"},
		Annotations: map[string]string{
			"io.containerd.image.name":          reference,
			"org.opencontainers.image.ref.name": reference,
		},
	}
	// A node that imports the archive also knows the image by the name with the digest, which charts use.
	byDigest := byTag
	name, _, _ := strings.Cut(reference, ":")
	byDigest.Annotations = map[string]string{"io.containerd.image.name": name + "@" + digest.String()}
	return json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{byTag, byDigest},
	})
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
	name, _, _ := strings.Cut(index.Manifests[0].Annotations["io.containerd.image.name"], ":")
	return Made{Name: name, Digest: index.Manifests[0].Digest.String()}, nil
}

func writeManifest(archive *tar.Writer, image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	for _, content := range [][]byte{manifest, config} {
		digest, err := digestOf(content)
		if err != nil {
			return err
		}
		if err := writeBlob(archive, blobPath(digest), content); err != nil {
			return err
		}
	}
	return nil
}

func writeCompressed(archive *tar.Writer, layer v1.Layer) error {
	digest, err := layer.Digest()
	if err != nil {
		return err
	}
	compressed, err := layer.Compressed()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(compressed)
	if err := errors.Join(err, compressed.Close()); err != nil {
		return err
	}
	return writeBlob(archive, blobPath(digest), content)
}

func digestOf(content []byte) (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(content))
	return digest, err
}

func blobPath(digest v1.Hash) string {
	return "blobs/" + digest.Algorithm + "/" + digest.Hex
}

func writeBlob(archive *tar.Writer, at string, content []byte) error {
	header := &tar.Header{Name: at, Mode: 0o644, Size: int64(len(content)), ModTime: epoch, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
