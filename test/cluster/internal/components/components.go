// SPDX-License-Identifier: Apache-2.0

package components

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// KubernetesVersion is the version that Kubernetes' programs report. components/kubernetes/go.mod has the version that
// is built.
const KubernetesVersion = "v1." + kubernetesMinor + ".2"

const kubernetesMinor = "37"

// component is a Go module in test/cluster/components.
type component struct {
	name string
	cgo  bool
	tags string
	// flags are for the linker.
	flags string
	// packages are the packages to build, by default all of the module's tools.
	packages string
}

const versionPackage = "k8s.io/component-base/version"

// kubernetes is also part of hubs.
var kubernetes = component{
	name: Kubernetes,
	tags: "selinux,notest,grpcnotrace", // those of releases
	flags: "-X " + versionPackage + ".gitVersion=" + KubernetesVersion +
		" -X " + versionPackage + ".gitMajor=1 -X " + versionPackage + ".gitMinor=" + kubernetesMinor +
		" -X " + versionPackage + ".gitTreeState=clean",
}

// inventory has the largest components first, the best order to start the builds.
var inventory = []component{
	kubernetes,
	{name: "flannel", cgo: true}, // its UDP backend is C
	{name: "coredns", packages: "."},
	{name: "multus"},
	{name: "cniplugins"},
}

// parallelBuilds keeps a linker busy next to the compilers.
const parallelBuilds = 2

// Builder builds components, and caches them.
type Builder struct {
	// Repository is the root of the project's source.
	Repository string
	// Cache is the folder for built components.
	Cache string
	// Log reports slow steps.
	Log func(format string, arguments ...any)
	// Stderr receives the compilers' output.
	Stderr io.Writer
}

// Built has the paths of what was built.
type Built struct {
	// Programs maps a component to the folder of its programs.
	Programs map[string]string
	// Images are OCI archives.
	Images []string
}

// Build builds everything that the cache lacks.
func (b *Builder) Build(ctx context.Context) (*Built, error) {
	built := &Built{Programs: map[string]string{}}
	results := make([]string, len(inventory))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelBuilds)
	for i, c := range inventory {
		group.Go(func() error {
			folder, err := b.program(groupCtx, c)
			results[i] = folder
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, c := range inventory {
		built.Programs[c.name] = results[i]
	}
	images, err := b.images(ctx, built.Programs)
	if err != nil {
		return nil, err
	}
	built.Images = images
	return built, nil
}

func (b *Builder) source() string { return filepath.Join(b.Repository, "test", "cluster") }

// program builds a component, and returns the folder of its programs.
func (b *Builder) program(ctx context.Context, c component) (string, error) {
	module := filepath.Join(b.source(), "components", c.name)
	key, err := c.key(module)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", c.name, err)
	}
	return b.cached(c.name, key, func(to string) error {
		began := time.Now()
		b.Log("building %s", c.name)
		if err := b.goBuild(ctx, c, module, to); err != nil {
			return fmt.Errorf("build %s: %w", c.name, err)
		}
		b.Log("built %s in %.0f s", c.name, time.Since(began).Seconds())
		return nil
	})
}

func (b *Builder) goBuild(ctx context.Context, c component, module, to string) error {
	packages := c.packages
	if packages == "" {
		packages = "tool"
	}
	arguments := []string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w " + c.flags}
	if c.tags != "" {
		arguments = append(arguments, "-tags="+c.tags)
	}
	arguments = append(arguments, "-o", to+"/", packages)
	cgo := "CGO_ENABLED=0"
	if c.cgo {
		cgo = "CGO_ENABLED=1"
	}
	return b.run(ctx, module, []string{cgo, "GOFLAGS=", "GOWORK=off"}, b.goTool(), arguments...)
}

func (b *Builder) goTool() string { return filepath.Join(b.Repository, "scripts", "go.sh") }

// cached returns the cache's folder for key. fill fills a new one.
func (b *Builder) cached(name, key string, fill func(to string) error) (string, error) {
	folder := filepath.Join(b.Cache, name+"-"+key)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(b.Cache, ".new-"+name+"-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temporary) }() // gone by its new name when all went well
	if err := os.Chmod(temporary, 0o755); err != nil {
		return "", err
	}
	if err := fill(temporary); err != nil {
		return "", err
	}
	if err := os.Rename(temporary, folder); err != nil && !isDirectory(folder) { // somebody else was first
		return "", err
	}
	return folder, nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
