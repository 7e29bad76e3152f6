// SPDX-License-Identifier: Apache-2.0

package components

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/images/builder"
)

// KarmadaVersion is the version that Karmada's programs report. components/karmada/go.mod has the version that is
// built.
const KarmadaVersion = "v1.18.2"

const (
	karmadaModule  = "github.com/karmada-io/karmada"
	karmadaPackage = karmadaModule + "/pkg/version"
)

// karmada is not in the inventory: only hubs need it.
var karmada = component{
	name:  Karmada,
	flags: "-X " + karmadaPackage + ".gitVersion=" + KarmadaVersion + " -X " + karmadaPackage + ".gitTreeState=clean",
}

// These are the keys of Built.Programs for the parts of a hub.
const (
	Kubernetes = "kubernetes"
	Karmada    = "karmada"
	// KarmadaManifests has the folders crds and deploy of Karmada's source.
	KarmadaManifests = "karmada-manifests"
)

// BuildHub builds the parts of a hub, and the image of its members' agent.
func (b *Builder) BuildHub(ctx context.Context) (*Built, error) {
	built := &Built{Programs: map[string]string{}}
	for _, c := range []component{kubernetes, karmada} {
		folder, err := b.program(ctx, c)
		if err != nil {
			return nil, err
		}
		built.Programs[c.name] = folder
	}
	manifests, err := b.karmadaManifests(ctx)
	if err != nil {
		return nil, err
	}
	built.Programs[KarmadaManifests] = manifests
	agent, err := b.image(filepath.Join(b.source(), "federation", "images", "karmada-agent.yaml"),
		builder.Sources{"KARMADA": built.Programs[Karmada]})
	if err != nil {
		return nil, err
	}
	built.Images = []string{agent}
	return built, nil
}

// karmadaManifests copies the manifests of Karmada's source.
func (b *Builder) karmadaManifests(ctx context.Context) (string, error) {
	return b.cached(KarmadaManifests, KarmadaVersion, func(to string) error {
		module := filepath.Join(b.source(), "components", karmada.name)
		source, err := b.output(ctx, module, []string{"GOFLAGS=", "GOWORK=off"}, b.goTool(), "list", "-m", "-f", "{{.Dir}}", karmadaModule)
		if err != nil {
			return fmt.Errorf("find the manifests of Karmada: %w", err)
		}
		for name, folder := range map[string]string{"crds": "charts/karmada/_crds", "deploy": "artifacts/deploy"} {
			if err := os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(source, folder))); err != nil {
				return fmt.Errorf("copy the manifests of Karmada: %w", err)
			}
		}
		return nil
	})
}
