// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

func setups(t *testing.T) (first, second node.Setup) {
	t.Helper()
	return setupsOn(t, 2)
}

func setupsOn(t *testing.T, cgroupVersion int) (first, second node.Setup) {
	t.Helper()
	p, err := plan.New("test", "/nowhere", 2, netip.Prefix{})
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := NewCredentials(p)
	if err != nil {
		t.Fatal(err)
	}
	both := make([]node.Setup, 2)
	for i := range both {
		both[i], err = Setup(credentials, p.Nodes[i], "example.test/pause:1", cgroupVersion)
		if err != nil {
			t.Fatal(err)
		}
	}
	return both[0], both[1]
}

func TestControlPlaneKeys(t *testing.T) {
	first, second := setups(t)
	for _, name := range []string{"ca.key", "sa.key", "apiserver.key", "etcd.key", "front-proxy-client.key"} {
		if _, there := first.Files[pkiDir+name]; !there {
			t.Errorf("the first node lacks %s", name)
		}
		if _, there := second.Files[pkiDir+name]; there {
			t.Errorf("the second node has %s", name)
		}
	}
	for name, file := range second.Files {
		secret := strings.HasSuffix(name, ".key") || strings.HasSuffix(name, ".kubeconfig")
		if secret && file.Mode != 0o600 {
			t.Errorf("%s has mode %v", name, file.Mode)
		}
	}
}

func TestKubeletCgroupVersion(t *testing.T) {
	for version, want := range map[int]any{1: false, 2: nil} {
		first, _ := setupsOn(t, version)
		var content map[string]any
		if err := yaml.UnmarshalStrict(first.Files["/etc/kubernetes/kubelet.yaml"].Content, &content); err != nil {
			t.Fatal(err)
		}
		if got := content["failCgroupV1"]; got != want || content["cgroupDriver"] != "cgroupfs" {
			t.Errorf("with version %d: failCgroupV1 is %v, want %v; cgroupDriver is %v", version, got, want, content["cgroupDriver"])
		}
	}
}

func TestConfigurationsAreComplete(t *testing.T) {
	first, _ := setups(t)
	for name, file := range first.Files {
		if strings.Contains(string(file.Content), "[[") || strings.Contains(string(file.Content), "<no value>") {
			t.Errorf("%s was not filled in: %s", name, file.Content)
		}
		if strings.HasSuffix(name, ".yaml") {
			var content map[string]any
			if err := yaml.UnmarshalStrict(file.Content, &content); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestKubeconfigsAreTheirUsers(t *testing.T) {
	_, second := setups(t)
	config, err := clientcmd.Load(second.Files["/etc/kubernetes/kubelet.kubeconfig"].Content)
	if err != nil {
		t.Fatal(err)
	}
	if _, there := config.AuthInfos["system:node:node2"]; !there {
		t.Errorf("it is for %v", config.AuthInfos)
	}
}

func TestEachNodeRunsItsServices(t *testing.T) {
	first, second := setups(t)
	names := func(setup node.Setup) (all []string) {
		for _, service := range setup.Services {
			all = append(all, service.Name)
		}
		slices.Sort(all)
		return all
	}
	if got, want := names(second), []string{"containerd", "kube-proxy", "kubelet"}; !slices.Equal(got, want) {
		t.Errorf("the second node runs %q, want %q", got, want)
	}
	if got := names(first); len(got) != 7 || !slices.Contains(got, "kube-apiserver") {
		t.Errorf("the first node runs %q", got)
	}
}

func TestThePodNetworkIsTheNodes(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.7.0/24"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
	text, err := PodNetwork(t.Context(), client, "node1")
	if err != nil {
		t.Fatal(err)
	}
	var network struct {
		Type string
		IPAM struct{ Ranges [][]struct{ Subnet string } }
	}
	if err := json.Unmarshal(text, &network); err != nil || network.Type != "bridge" || network.IPAM.Ranges[0][0].Subnet != "10.244.7.0/24" {
		t.Errorf("got %s, %v", text, err)
	}
	if _, err := PodNetwork(t.Context(), client, "new"); err == nil {
		t.Error("a node without a range has a network")
	}
}
