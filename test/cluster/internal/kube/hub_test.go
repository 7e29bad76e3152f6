// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

func TestHubRunsKarmada(t *testing.T) {
	p, err := plan.NewHub("fed", "/nowhere", netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := NewCredentials(p)
	if err != nil {
		t.Fatal(err)
	}
	setup, err := HubSetup(credentials)
	if err != nil {
		t.Fatal(err)
	}
	services := map[string]bool{}
	for _, service := range setup.Services {
		services[service.Name] = true
	}
	for name, want := range map[string]bool{
		"etcd": true, "kube-apiserver": true, "kube-controller-manager": true, "karmada-aggregated-apiserver": true,
		"karmada-controller-manager": true, "karmada-scheduler": true, "karmada-webhook": true,
		"kubelet": false, "containerd": false, "kube-scheduler": false,
	} {
		if services[name] != want {
			t.Errorf("it has %s: %t, want %t", name, services[name], want)
		}
	}
	for name, file := range setup.Files {
		secret := strings.HasSuffix(name, ".key") || strings.HasSuffix(name, ".kubeconfig") || name == KarmadaKubeconfig
		if secret && file.Mode != 0o600 {
			t.Errorf("%s has mode %v", name, file.Mode)
		}
	}
	hosts := string(setup.Files["/etc/hosts"].Content)
	for _, server := range []karmadaServer{aggregatedServer, webhookServer} {
		if !strings.Contains(hosts, server.address+" "+server.name+".karmada-system.svc ") {
			t.Errorf("/etc/hosts lacks %s: %s", server.name, hosts)
		}
	}
}

func TestConversions(t *testing.T) {
	manifests := t.TempDir()
	folder := filepath.Join(manifests, "crds", "patches")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "patch.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := Karmada{Manifests: manifests, Authority: []byte("authority")}
	write(`{apiVersion: v1, kind: Patch, metadata: {name: a}, spec: {conversion: {webhook: {clientConfig: {url: "https://{{name}}.{{namespace}}.svc:443", caBundle: "{{caBundle}}"}}}}}`)
	conversions, err := k.conversions()
	if err != nil {
		t.Fatal(err)
	}
	config := conversions["a"].(map[string]any)["webhook"].(map[string]any)["clientConfig"].(map[string]any)
	if config["url"] != "https://karmada-webhook.karmada-system.svc:443" || config["caBundle"] != "YXV0aG9yaXR5" {
		t.Errorf("%v", config)
	}
	write(`{apiVersion: v1, kind: Patch, metadata: {name: a}, spec: {}}`)
	if _, err := k.conversions(); err == nil || !strings.Contains(err.Error(), "patch.yaml of Karmada has no conversion") {
		t.Errorf("a patch without one: %v", err)
	}
}
