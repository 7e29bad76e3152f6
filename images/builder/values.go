// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Made is an image that was made.
type Made struct{ Name, Digest string }

// ValuesOf are those of the chart for all archives of a folder, whenever they were made.
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

// values name images: where they are, and by their digests which they are.
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
