// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// maxStoredBytes is etcd's default limit of a request, --max-request-bytes.
const maxStoredBytes = 3 << 19

// crdSchema is a part of a resource's OpenAPI schema.
type crdSchema struct {
	Type       string                `json:"type"`
	Format     string                `json:"format"`
	Enum       []string              `json:"enum"`
	MaxLength  int                   `json:"maxLength"`
	MaxItems   int                   `json:"maxItems"`
	Maximum    int64                 `json:"maximum"`
	Properties map[string]*crdSchema `json:"properties"`
	Items      *crdSchema            `json:"items"`
	MapKeys    []string              `json:"x-kubernetes-list-map-keys"`
}

// longestValues are the longest values of fields whose values are checked.
var longestValues = map[string]string{
	"address": "255.255.255.255", "ipv4": "255.255.255.255/32", "ipv6": strings.Repeat("ffff:", 7) + "ffff/128",
}

// longest returns the largest value of a field.
func (s *crdSchema) longest(t *testing.T, name string) any {
	switch value, checked := longestValues[name]; {
	case s.Type == "string" && checked && len(value) <= s.MaxLength && s.MaxLength < 2*len(value):
		return value
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Format == "date-time":
		return "2026-11-30T12:00:00Z"
	case s.Type == "string" && s.MaxLength > 0:
		return strings.Repeat("x", s.MaxLength)
	case s.Type == "boolean":
		return true
	case s.Type == "integer" && s.Maximum > 0:
		return s.Maximum
	case s.Type == "integer":
		return int64(1<<63 - 1)
	case s.Type == "array" && s.MaxItems > 0:
		var items []any
		for i := range s.MaxItems {
			item := s.Items.longest(t, name)
			for _, key := range s.MapKeys {
				text := item.(map[string]any)[key].(string)
				item.(map[string]any)[key] = text[:len(text)-3] + fmt.Sprintf("%03d", i)
			}
			items = append(items, item)
		}
		return items
	case s.Type == "object":
		object := map[string]any{}
		for field, part := range s.Properties {
			object[field] = part.longest(t, field)
		}
		return object
	}
	t.Fatalf("the schema does not limit %s, of type %s", name, s.Type)
	return nil
}

// peersSchema returns the schema of TSNPeers' spec.
func peersSchema(t *testing.T) *crdSchema {
	text, err := os.ReadFile("../../charts/kubernetsn/files/kubernetsn.io_tsnpeers.yaml")
	must(t, err)
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema crdSchema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	must(t, yaml.Unmarshal(text, &definition))
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// TestLargestPeersAreStored has as many nodes as a TSNPeers can have, each with as many static addresses as a node can have, and all values as long
// as the schema allows.
func TestLargestPeersAreStored(t *testing.T) {
	ctx := needServer(t)
	var spec v1alpha1.TSNPeersSpec
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(peersSchema(t).longest(t, "spec").(map[string]any), &spec))
	wanted := map[string]v1alpha1.PeerNode{}
	for _, node := range spec.Nodes {
		wanted[node.Name] = node
	}
	if len(wanted) != v1alpha1.MaxPeers || len(spec.Nodes[0].Addresses) != v1alpha1.MaxNodeAddresses {
		t.Fatalf("the schema allows %d nodes with %d addresses each", len(wanted), len(spec.Nodes[0].Addresses))
	}
	largest, count := 0, 0
	for _, shard := range tsnnetwork.DivideShards(nil, wanted, nil) {
		largest, count = max(largest, storedBytes(ctx, t, &spec, shard)), count+len(shard.Nodes)
	}
	// A shard with all nodes has as many addresses as there is room for.
	for name, node := range wanted {
		node.Addresses = node.Addresses[:v1alpha1.MaxPeersAddresses/v1alpha1.MaxPeers]
		wanted[name] = node
	}
	for _, shard := range tsnnetwork.DivideShards(nil, wanted, nil) {
		largest = max(largest, storedBytes(ctx, t, &spec, shard))
	}
	t.Logf("the largest TSNPeers has %d bytes, %d %% of the limit", largest, largest*100/maxStoredBytes)
	if count != v1alpha1.MaxPeers || largest > maxStoredBytes*9/10 {
		t.Errorf("%d nodes are in TSNPeers of up to %d bytes, which leaves no reserve below %d", count, largest, maxStoredBytes)
	}
}

// storedBytes creates the TSNPeers of a shard, and returns its size with the managed fields.
func storedBytes(ctx context.Context, t *testing.T, spec *v1alpha1.TSNPeersSpec, shard tsnnetwork.Shard) int {
	t.Helper()
	peers := newPeers(tsnnetwork.ShardName(spec.Network, shard.Number), spec.Network)
	peers.Spec = *spec
	peers.Spec.Nodes = shard.Nodes
	must(t, admin.Create(ctx, peers))
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TSNPeers"))
	must(t, admin.Get(ctx, client.ObjectKeyFromObject(peers), stored))
	must(t, admin.Delete(ctx, peers))
	if len(stored.GetManagedFields()) == 0 {
		t.Fatal("the API server has returned no managed fields")
	}
	text, err := json.Marshal(stored)
	must(t, err)
	return len(text)
}
