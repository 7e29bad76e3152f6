// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// deployed are the manifests that Karmada's own installation applies to its API server. The webhook's come once the
// webhook answers: before, every write would fail.
var deployed = []string{
	"namespace.yaml", "admin-clusterrole-aggregation.yaml", "cluster-proxy-admin-rbac.yaml", "bootstrap-token-configuration.yaml",
	"karmada-aggregated-apiserver-apiservice.yaml",
}

const webhookConfiguration = "webhook-configuration.yaml"

// Karmada applies the manifests of Karmada to a hub.
type Karmada struct {
	// Manifests is the folder with crds and deploy.
	Manifests string
	// Server is the URL of the hub's API server, Authority its certificate authority, in PEM.
	Server    string
	Authority []byte
	Applier   *Applier
}

// replacer fills in the placeholders, as Karmada's scripts do.
func (k *Karmada) replacer() *strings.Replacer {
	authority := base64.StdEncoding.EncodeToString(k.Authority)
	return strings.NewReplacer(
		"{{caBundle}}", authority, "{{ca_crt}}", authority, "{{apiserver_address}}", k.Server,
		"{{name}}", webhookServer.name, "{{namespace}}", karmadaNamespace,
	)
}

// Apply applies all manifests but the webhook's.
func (k *Karmada) Apply(ctx context.Context) error {
	if err := k.applyDefinitions(ctx); err != nil {
		return err
	}
	for _, name := range deployed {
		if err := k.applyDeployed(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// ApplyWebhook registers the webhook at the API server.
func (k *Karmada) ApplyWebhook(ctx context.Context) error {
	return k.applyDeployed(ctx, webhookConfiguration)
}

func (k *Karmada) applyDeployed(ctx context.Context, name string) error {
	text, err := os.ReadFile(filepath.Join(k.Manifests, "deploy", name))
	if err != nil {
		return fmt.Errorf("read manifest of Karmada: %w", err)
	}
	if err := k.Applier.Apply(ctx, strings.NewReader(k.replacer().Replace(string(text)))); err != nil {
		return fmt.Errorf("manifest %s of Karmada: %w", name, err)
	}
	return nil
}

// applyDefinitions applies the CustomResourceDefinitions, some with the conversion of a patch.
func (k *Karmada) applyDefinitions(ctx context.Context) error {
	conversions, err := k.conversions()
	if err != nil {
		return err
	}
	files, err := yamlFiles(filepath.Join(k.Manifests, "crds", "bases"))
	if err != nil {
		return err
	}
	for _, file := range files {
		definition, err := readObject(file, k.replacer())
		if err != nil {
			return err
		}
		if conversion, patched := conversions[definition.GetName()]; patched {
			if err := unstructured.SetNestedField(definition.Object, conversion, "spec", "conversion"); err != nil {
				return fmt.Errorf("manifest %s of Karmada: %w", filepath.Base(file), err)
			}
		}
		text, err := json.Marshal(definition)
		if err != nil {
			return err
		}
		if err := k.Applier.Apply(ctx, bytes.NewReader(text)); err != nil {
			return fmt.Errorf("manifest %s of Karmada: %w", filepath.Base(file), err)
		}
	}
	return nil
}

// conversions returns the patches' conversions, by the names of definitions.
func (k *Karmada) conversions() (map[string]any, error) {
	files, err := yamlFiles(filepath.Join(k.Manifests, "crds", "patches"))
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for _, file := range files {
		patch, err := readObject(file, k.replacer())
		if err != nil {
			return nil, err
		}
		conversion, ok, err := unstructured.NestedFieldCopy(patch.Object, "spec", "conversion")
		if err != nil || !ok {
			return nil, errors.Join(fmt.Errorf("manifest %s of Karmada has no conversion", filepath.Base(file)), err)
		}
		all[patch.GetName()] = conversion
	}
	return all, nil
}

func yamlFiles(folder string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".yaml" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find manifests of Karmada: %w", err)
	}
	slices.Sort(files)
	return files, nil
}

func readObject(file string, replacer *strings.Replacer) (*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read manifest of Karmada: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(replacer.Replace(string(text))), object); err != nil {
		return nil, fmt.Errorf("manifest %s of Karmada: %w", filepath.Base(file), err)
	}
	return object, nil
}
