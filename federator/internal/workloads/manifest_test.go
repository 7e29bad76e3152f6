// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"strings"
	"testing"
)

func TestObjectsOfOneNameInTwoGroupsAreTwo(t *testing.T) {
	const one, other = "apiVersion: a.example.org/v1\nkind: Gizmo\nmetadata: {name: g}\n", "apiVersion: b.example.org/v1\nkind: Gizmo\nmetadata: {name: g}\n"
	objects, err := parse(one+"---\n"+other, "default")
	if err != nil || len(objects) != 2 {
		t.Errorf("%d objects: %v", len(objects), err)
	}
	again := strings.Replace(one, "v1", "v2", 1)
	if _, err := parse(one+"---\n"+again, "default"); err == nil || !strings.Contains(err.Error(), "Gizmo g is twice") {
		t.Errorf("an object in two versions: %v", err)
	}
}
