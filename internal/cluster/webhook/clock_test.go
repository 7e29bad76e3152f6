// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	patchlib "gomodules.xyz/jsonpatch/v2"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	lostA    = `{"key":"clock.kubernetsn.io/a","operator":"NotIn","values":["lost"]}`
	lostB    = `{"key":"clock.kubernetsn.io/b","operator":"NotIn","values":["lost"]}`
	terms    = `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: `
	required = `"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":`
)

// TestAvoidLostClocks applies the patch as the API server does.
func TestAvoidLostClocks(t *testing.T) {
	for name, test := range map[string]struct {
		spec     string
		networks []string
		want     string
	}{
		"no affinity": {appContainer, []string{"a", "b"}, `"affinity":{` + required + `[{"matchExpressions":[` + lostA + `,` + lostB + `]}]}}}`},
		"affinity to pods": {appContainer + ", affinity: {podAffinity: {}}", []string{"a"},
			`"affinity":{` + required + `[{"matchExpressions":[` + lostA + `]}]}},"podAffinity":{}}`},
		"nodes that it likes": {appContainer + ", affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}", []string{"a"},
			`"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[` + lostA + `]}]}`},
		"each of several terms": {appContainer + ", " + terms + "[{matchExpressions: [{key: x, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [node1]}]}]}}}", []string{"a"},
			required + `[{"matchExpressions":[{"key":"x","operator":"Exists"},` + lostA + `]},{"matchExpressions":[` + lostA + `],"matchFields":[{"key":"metadata.name","operator":"In","values":["node1"]}]}]}`},
		"a term that no node meets":       {appContainer + ", " + terms + "[{}, {matchExpressions: [{key: x, operator: Exists}]}]}}}", []string{"a"}, required + `[{},{"matchExpressions":[{"key":"x","operator":"Exists"},` + lostA + `]}]}`},
		"a term that says so already":     {appContainer + ", " + terms + "[{matchExpressions: [" + lostA + "]}]}}}", []string{"a"}, required + `[{"matchExpressions":[` + lostA + `]}]}`},
		"a term that says so of another":  {appContainer + ", " + terms + "[{matchExpressions: [" + lostB + "]}]}}}", []string{"a"}, required + `[{"matchExpressions":[` + lostB + `,` + lostA + `]}]}`},
		"networks that ask for no clock":  {appContainer, nil, `{"containers":[{"name":"app"}]}`},
		"a pod that has its node already": {appContainer + ", nodeName: node1", []string{"a"}, `{"containers":[{"name":"app"}],"nodeName":"node1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte("spec: {" + test.spec + "}"))
			must(t, err)
			for range 2 { // a pod may come twice
				pod := &corev1.Pod{}
				must(t, json.Unmarshal(raw, pod))
				before := pod.DeepCopy()
				avoidLostClocks(pod, test.networks)
				raw = applied(t, raw, newPatch(t, before, pod))
				if !strings.Contains(string(raw), test.want) {
					t.Errorf("got  %s\nwant %s in it", raw, test.want)
				}
			}
			if count := strings.Count(string(raw), lostA); len(test.networks) > 0 && count > strings.Count(test.want, lostA) {
				t.Errorf("it is there %d times: %s", count, raw)
			}
		})
	}
}

func newPatch(t *testing.T, before, after *corev1.Pod) []patchlib.JsonPatchOperation {
	t.Helper()
	patch, err := patchOf(before, after)
	must(t, err)
	return patch
}

// applied applies a patch, and sorts the members of objects.
func applied(t *testing.T, raw []byte, p []patchlib.JsonPatchOperation) []byte {
	t.Helper()
	operations, err := json.Marshal(p)
	must(t, err)
	decoded, err := jsonpatch.DecodePatch(operations)
	must(t, err)
	if raw, err = decoded.Apply(raw); err != nil {
		t.Fatalf("%s does not fit: %v", operations, err)
	}
	var object any
	must(t, json.Unmarshal(raw, &object))
	return []byte(asText(t, object))
}
