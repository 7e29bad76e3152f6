// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"strings"
	"testing"
)

func TestSameNameInTwoGroups(t *testing.T) {
	const object, other = "apiVersion: a.example.org/v1\nkind: Gizmo\nmetadata: {name: g}\n", "apiVersion: b.example.org/v1\nkind: Gizmo\nmetadata: {name: g}\n"
	objects, err := parse(object+"---\n"+other, "default")
	if err != nil || len(objects) != 2 {
		t.Errorf("%d objects: %v", len(objects), err)
	}
	again := strings.Replace(object, "v1", "v2", 1)
	if _, err := parse(object+"---\n"+again, "default"); err == nil || !strings.Contains(err.Error(), "Gizmo g appears twice") {
		t.Errorf("an object in two versions: %v", err)
	}
}

func TestInvalidNamesAndMetadataAreRejected(t *testing.T) {
	const map7 = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: "
	for manifest, words := range map[string]string{
		map7 + "a/b}\n":                         `ConfigMap in document 2 of the manifest has the metadata.name "a/b", which may not contain '/'`,
		map7 + `".."}` + "\n":                   `has the metadata.name "..", which may not be '..'`,
		map7 + strings.Repeat("a", 300) + "}\n": "ConfigMap in document 2 of the manifest has a metadata.name of 300 characters; names have at most 253",
		map7 + "7}\n":                           "has no metadata.name, by which clusters know it",
		map7 + "b, labels: 7}\n":                "ConfigMap b in document 2 of the manifest has metadata.labels that are no texts by names",
		map7 + "b, annotations: {a: 7}}\n":      "ConfigMap b in document 2 of the manifest has metadata.annotations that are no texts by names",
		"apiVersion: v1\nkind: [a]\n":           "document 1 of the manifest has no kind",
		"apiVersion: v1\nkind: A\nmetadata:\n":  "A in document 1 of the manifest has no metadata.name",
	} {
		if _, err := parse(manifest, "default"); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%.200q: %v, want %q", manifest, err, words)
		}
	}
}
