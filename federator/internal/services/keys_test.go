// SPDX-License-Identifier: Apache-2.0

package services

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// TestNodeKeysArePassedOnUnchanged has a client in one cluster, an endpoint in another, and a service with encryption.
func TestNodeKeysArePassedOnUnchanged(t *testing.T) {
	f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
	f.service.Spec.Encryption = tsn.EncryptionRequired
	say := func(cluster string, pods *[]tsn.ServicePod, pod tsn.ServicePod, status *tsn.TSNServiceStatus, signature string) {
		f.has[pod.UID] = cluster
		*pods = []tsn.ServicePod{pod}
		status.Nodes = nil
		if signature != "" {
			status.Nodes = []tsn.ServiceNode{{Name: "another", NodeKeys: tsn.LinkNodeKeys{Signature: "of another"}}, {Name: pod.Node, NodeKeys: tsn.LinkNodeKeys{Signature: signature}}}
		}
	}
	tell := func(client, endpoint string) {
		for cluster, signature := range map[string]string{"c0": client, "c1": endpoint} {
			report := f.reports[cluster]
			pod := tsn.ServicePod{Namespace: "ns", Pod: "pod-" + cluster, UID: "uid-" + cluster, Node: "node", NodeAddress: "192.0.2.1" + cluster[1:], Interface: "bus"}
			if cluster == "c0" {
				say(cluster, &report.Status.Wants, pod, &report.Status, signature)
			} else {
				say(cluster, &report.Status.Offers, pod, &report.Status, signature)
			}
			f.reports[cluster] = report
		}
	}
	for _, step := range []struct{ client, endpoint, wantClient, wantEndpoint string }{
		{"", "", "", ""}, {"one", "", "one", ""}, {"one", "two", "one", "two"}, {"three", "two", "three", "two"},
		{"three", "", "three", "two"}, // the cluster reports nothing about the node: the link's keys stay
	} {
		tell(step.client, step.endpoint)
		f.settle(t)
		if len(f.links) != 1 {
			t.Fatalf("there are %d links", len(f.links))
		}
		spec := &f.links[0].Spec
		if signatureOf(&spec.Client) != step.wantClient || signatureOf(&spec.Endpoint) != step.wantEndpoint {
			t.Errorf("told %+v, the link has the keys %+v and %+v", step, spec.Client.NodeKeys, spec.Endpoint.NodeKeys)
		}
	}
	f.service.Spec.Encryption = tsn.EncryptionNone
	if f.settle(t); f.links[0].Spec.Client.NodeKeys != nil || f.links[0].Spec.Endpoint.NodeKeys != nil {
		t.Errorf("without encryption the link has keys: %+v", f.links[0].Spec)
	}
}

func signatureOf(end *tsn.LinkEnd) string {
	if end.NodeKeys == nil {
		return ""
	}
	return end.NodeKeys.Signature
}

func TestInvalidKeysAreRejected(t *testing.T) {
	key := tsn.NodeKey{ID: "one", Algorithm: tsn.KeyAlgorithm, PublicKey: strings.Repeat("k", 44)}
	other := key
	other.ID = "two"
	has := func(change func(keys *tsn.LinkNodeKeys)) *tsn.LinkNodeKeys {
		keys := &tsn.LinkNodeKeys{ClusterKey: strings.Repeat("c", 44), Signature: strings.Repeat("s", 88), Keys: []tsn.NodeKey{key, other}, Sender: &tsn.SenderGenerations{}}
		change(keys)
		return keys
	}
	for words, keys := range map[string]*tsn.LinkNodeKeys{
		"":                                    has(func(*tsn.LinkNodeKeys) {}),
		"clusterKey has 45":                   has(func(keys *tsn.LinkNodeKeys) { keys.ClusterKey += "c" }),
		"signature has 89":                    has(func(keys *tsn.LinkNodeKeys) { keys.Signature += "s" }),
		"there are 3":                         has(func(keys *tsn.LinkNodeKeys) { keys.Keys = append(keys.Keys, tsn.NodeKey{}) }),
		"sender is negative":                  has(func(keys *tsn.LinkNodeKeys) { keys.Sender.Ktsnd = -1 }),
		`key id "one" is invalid or repeated`: has(func(keys *tsn.LinkNodeKeys) { keys.Keys = []tsn.NodeKey{key, key} }),
		`key id "" is invalid`:                has(func(keys *tsn.LinkNodeKeys) { keys.Keys[0].ID = "" }),
		`algorithm "RSA" is not supported`:    has(func(keys *tsn.LinkNodeKeys) { keys.Keys[1].Algorithm = "RSA" }),
		"publicKey has 45":                    has(func(keys *tsn.LinkNodeKeys) { keys.Keys[1].PublicKey += "k" }),
	} {
		f := newFleet(t, rand.New(rand.NewPCG(1, 28)))
		f.clusters = f.clusters[:2]
		f.service.Spec.Encryption = tsn.EncryptionRequired
		f.report("c0", false, "arm")
		f.report("c1", true, "plc")
		report := f.reports["c1"]
		report.Status.Nodes = []tsn.ServiceNode{{Name: "node", NodeKeys: *keys}}
		f.reports["c1"] = report
		pairing := f.round()
		if len(pairing.create) != 1 {
			t.Fatalf("%q: %d links were made", words, len(pairing.create))
		}
		reported := slices.ContainsFunc(pairing.findings, func(finding spread.Finding) bool {
			return finding.Reason == spread.ReasonUntrusted && strings.Contains(finding.Text, `keys of node "node" of cluster c1 are not used: `+words)
		})
		if carried := pairing.create[0].Spec.Endpoint.NodeKeys != nil; carried != (words == "") || reported == carried {
			t.Errorf("%q: carried %t, found %+v", words, carried, pairing.findings)
		}
	}
}
