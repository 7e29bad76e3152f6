// SPDX-License-Identifier: Apache-2.0

package components

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kubernetsn/kubernetsn/images/builder"
)

// Tag is the tag of the images that the cluster itself needs.
const Tag = "cluster"

// images builds the images of test/cluster/images.
func (b *Builder) images(ctx context.Context, programs map[string]string) ([]string, error) {
	pause, err := b.pause(ctx)
	if err != nil {
		return nil, err
	}
	sources := builder.Sources{"PAUSE": pause}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		sources[strings.ToUpper(name)] = programs[name]
	}
	definitions, err := filepath.Glob(filepath.Join(b.source(), "images", "*.yaml"))
	if err != nil {
		return nil, err
	}
	archives := make([]string, len(definitions))
	var group errgroup.Group
	group.SetLimit(parallelBuilds)
	for i, file := range definitions {
		group.Go(func() error {
			archive, err := b.image(file, sources)
			archives[i] = archive
			return err
		})
	}
	return archives, group.Wait()
}

// image builds an image unless the cache has it, and returns its archive.
func (b *Builder) image(file string, sources builder.Sources) (string, error) {
	definition, err := builder.Load(file)
	if err != nil {
		return "", err
	}
	key, err := builder.Fingerprint(definition, sources)
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	folder, err := b.cached("image-"+name, key[:2*keyBytes], func(to string) error {
		image, err := builder.Build(definition, sources)
		if err != nil {
			return err
		}
		return builder.WriteArchive(filepath.Join(to, name+".tar"), definition.Name+":"+Tag, image)
	})
	return filepath.Join(folder, name+".tar"), err
}

// pause builds the program that holds a pod's namespaces. Its source is part of Kubernetes'.
func (b *Builder) pause(ctx context.Context) (string, error) {
	return b.cached("pause", KubernetesVersion, func(to string) error {
		module := filepath.Join(b.source(), "components", "kubernetes")
		kubernetes, err := b.output(ctx, module, []string{"GOFLAGS=", "GOWORK=off"}, b.goTool(), "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
		if err != nil {
			return fmt.Errorf("find the source of pause: %w", err)
		}
		source := filepath.Join(kubernetes, "build", "pause", "linux", "pause.c")
		if _, err := os.Stat(source); err != nil {
			return fmt.Errorf("find the source of pause: %w", err)
		}
		err = b.run(ctx, to, nil, "gcc", "-Os", "-static", "-s", "-DVERSION="+KubernetesVersion, "-o", filepath.Join(to, "pause"), source)
		if err != nil {
			return fmt.Errorf("build pause: %w", err)
		}
		return nil
	})
}
