// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Made is a built image.
type Made struct{ Name, Digest string }

// ValuesOf returns the chart's values for all archives in a folder, also for older ones.
func ValuesOf(folder string) ([]byte, error) {
	archives, err := filepath.Glob(filepath.Join(folder, "*.tar"))
	if err != nil {
		return nil, fmt.Errorf("list archives: %w", err)
	}
	var images []Made
	for _, archive := range archives {
		image, err := readArchive(archive)
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	text, err := values(images)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return text, nil
}

// WriteValues writes the chart's values for images.
func WriteValues(file string, images []Made) error {
	text, err := values(images)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// values returns the chart's values: where the images are, and their digests.
func values(images []Made) ([]byte, error) {
	if len(images) == 0 {
		return nil, errors.New("there are no images to name")
	}
	prefix, digests := path.Dir(images[0].Name), map[string]string{}
	for _, image := range images {
		if path.Dir(image.Name) != prefix {
			return nil, fmt.Errorf("images %s and %s are in different places, and the chart knows one; remove the archives of the other",
				images[0].Name, image.Name)
		}
		name := path.Base(image.Name)
		if other, twice := digests[name]; twice && other != image.Digest {
			return nil, fmt.Errorf("two archives are of image %s; remove the older one", image.Name)
		}
		digests[name] = image.Digest
	}
	text, err := yaml.Marshal(map[string]any{"image": map[string]any{"prefix": prefix, "digests": digests}})
	return append([]byte("# Values of the chart: the images that stand beside this file.\n"), text...), err
}
