// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// fromHub are encrypted links of a hub from a pod of a node to nodes of other clusters, of which each has a key.
func fromHub(t *testing.T, clusters ...string) (*links.Input, *links.Result) {
	t.Helper()
	in, plan := &links.Input{Pods: []links.Pod{{UID: "here"}}}, &links.Result{}
	for _, cluster := range clusters {
		key, err := clusterkey.New()
		must(t, err)
		in.Links = append(in.Links, v1alpha1.TSNLink{Spec: v1alpha1.TSNLinkSpec{Encryption: v1alpha1.EncryptionRequired,
			Client:   v1alpha1.LinkEnd{UID: "here", Node: "near"},
			Endpoint: v1alpha1.LinkEnd{UID: "there", Cluster: cluster, Node: "far", NodeKeys: &v1alpha1.LinkNodeKeys{ClusterKey: key.Public().String()}}}})
	}
	for i := range in.Links {
		plan.Admitted = append(plan.Admitted, links.Admission{Link: &in.Links[i]})
	}
	return in, plan
}

func TestRefusedLinkPinsNoCluster(t *testing.T) {
	shared := inCluster(t).shared
	r := newLinks(shared, shared.keys.client, "kubernetsn", nil, nil)
	read := func(in *links.Input, plan *links.Result) []v1alpha1.ClusterKey {
		t.Helper()
		must(t, r.updateNodeKeys(t.Context(), in, plan))
		return shared.links.forNode("near", nil)
	}
	in, plan := fromHub(t, "north")
	plan.Admitted[0].Refusal = errors.New("nobody asks for it")
	if keys := read(in, plan); keys != nil {
		t.Errorf("the node is told of %v", keys)
	}
	if keys := read(in, &links.Result{}); keys != nil {
		t.Errorf("before it was looked at, the node is told of %v", keys)
	}
	plan.Admitted[0].Refusal = nil
	if keys := read(in, plan); len(keys) != 2 || keys[1].Cluster != "north" {
		t.Errorf("once admitted, the node is told of %v", keys)
	}
}

func TestTruncateKeys(t *testing.T) {
	shared := inCluster(t).shared
	r := newLinks(shared, shared.keys.client, "kubernetsn", nil, nil)
	clusters := []string{"real"}
	for range 2 {
		in, plan := fromHub(t, clusters...)
		must(t, r.updateNodeKeys(t.Context(), in, plan))
		for i := range v1alpha1.MostClusterKeys {
			clusters = append(clusters, fmt.Sprintf("invented%03d", i))
		}
	}
	keys := shared.links.forNode("near", nil)
	has := map[string]bool{}
	for _, key := range keys {
		has[key.Cluster] = true
	}
	if len(keys) != v1alpha1.MostClusterKeys || !has[""] || !has["real"] {
		t.Errorf("it is told of %d clusters, of this one: %v, of the one that it was told of before: %v", len(keys), has[""], has["real"])
	}
}

// TestLinksEncryptionMinimum uses a hub's TSNService without encryption.
func TestLinksEncryptionMinimum(t *testing.T) {
	service := &v1alpha1.TSNService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plant"},
		Spec: v1alpha1.TSNServiceSpec{IPv4: &v1alpha1.LinkRange{LinkCIDR: "10.60.0.0/16"}, Encryption: v1alpha1.EncryptionNone}}
	shared := inCluster(t, service).shared
	shared.minimum = minimum(t, "--encryption-minimum-of=default/plant=Required")
	r := newLinks(shared, shared.keys.client, "kubernetsn", nil, nil)
	in, err := r.collectInput(t.Context())
	must(t, err)
	if got := in.Services[0].Spec.Encryption; got != v1alpha1.EncryptionRequired {
		t.Errorf("its links have %s", got)
	}
	ready := serviceCondition(&in.Services[0], &links.ServicePlan{}, r.raised[links.Key{Namespace: "default", Name: "plant"}])
	if ready.Reason != v1alpha1.ReasonEncryptionBelowMinimum || !strings.Contains(ready.Message, "spec.encryption of TSNService default/plant is None, and the minimum of this cluster for it is Required") {
		t.Errorf("got %+v", ready)
	}
	plan := &links.ServicePlan{Findings: []links.Finding{{Reason: v1alpha1.ReasonOverlaps, Text: "a range is taken"}}}
	ready = serviceCondition(&in.Services[0], plan, r.raised[links.Key{Namespace: "default", Name: "plant"}])
	if ready.Reason != v1alpha1.ReasonOverlaps || !strings.Contains(ready.Message, "a range is taken; spec.encryption of TSNService default/plant is None") {
		t.Errorf("with a finding it says %+v", ready)
	}
}

// TestLinksWithoutClusterKey uses a damaged Secret.
func TestLinksWithoutClusterKey(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kubernetsn", Name: v1alpha1.ClusterKeySecret}, Data: map[string][]byte{v1alpha1.ClusterKeyField: []byte("short")}}
	objects := append(servingNode(1413), secret)
	for i, keys := range []*v1alpha1.LinkNodeKeys{{Sequence: 1}, {Sequence: 2}, nil} {
		link := &v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("link", i)}}
		link.Spec.Encryption, link.Spec.Client = v1alpha1.EncryptionRequired, v1alpha1.LinkEnd{Node: "a", NodeAddress: "192.0.2.1", NodeKeys: keys}
		objects = append(objects, link)
	}
	shared := inCluster(t, objects...).shared
	r := newLinks(shared, shared.keys.client, "kubernetsn", nil, nil)
	in, err := r.collectInput(t.Context())
	must(t, err)
	if keys := in.Nodes["a"].Keys; keys == nil || keys.Sequence != 2 {
		t.Errorf("node a has the keys %+v", keys)
	}
}
