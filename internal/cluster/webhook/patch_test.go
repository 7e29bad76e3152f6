// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// patched applies the patch for a pod as the API server does, and returns the pod, and what mutate means it to be.
func patched(t *testing.T, text string) (got, want map[string]any) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	must(t, err)
	pod := &corev1.Pod{}
	must(t, json.Unmarshal(raw, pod))
	before := pod.DeepCopy()
	must(t, mutate(pod, "ns", []string{"tsn"}, ""))
	must(t, json.Unmarshal(applied(t, raw, newPatch(t, before, pod)), &got))
	must(t, json.Unmarshal([]byte(asText(t, pod)), &want))
	return got, want
}

func TestPatchOf(t *testing.T) {
	for name, text := range map[string]string{
		"one container":              annotated("", appContainer),
		"labels, and a sidecar":      strings.Replace(annotated("", "initContainers: [{name: prepare}, {name: proxy, restartPolicy: Always}], "+appContainer), "metadata: {", "metadata: {labels: {a: b}, ", 1),
		"variables and mounts":       annotated("", "containers: [{name: app, env: [{name: A, value: b}], volumeMounts: [{name: a, mountPath: /a}]}, {name: log}], volumes: [{name: a, emptyDir: {}}]"),
		"another library":            annotated("", "containers: [{name: app, env: [{name: A}, {name: LD_PRELOAD, value: a.so}]}]"),
		"a variable without a value": annotated("", "containers: [{name: app, env: [{name: LD_PRELOAD}]}]"),
		"empty lists":                annotated("", "containers: [{name: app, env: [], volumeMounts: null}], volumes: []"),
		"other attachments":          annotated(networksKey+"other", appContainer),
	} {
		t.Run(name, func(t *testing.T) {
			got, want := patched(t, text)
			// The types write fields that are empty, and a text has not.
			again := &corev1.Pod{}
			must(t, json.Unmarshal([]byte(asText(t, got)), again))
			var whole map[string]any
			must(t, json.Unmarshal([]byte(asText(t, again)), &whole))
			if !reflect.DeepEqual(whole, want) {
				t.Errorf("got  %v\nwant %v", whole, want)
			}
		})
	}
}

func TestPatchKeepsUnknownFields(t *testing.T) {
	got, _ := patched(t, annotated("", "novel: 1, containers: [{name: app, novel: 2, env: [{name: LD_PRELOAD, value: a.so, novel: 3}]}], volumes: [{name: a, novel: {}}]"))
	text := asText(t, got)
	for _, kept := range []string{`"novel":1`, `"novel":2`, `"novel":3`, `"novel":{}`, `"value":"a.so:/run/ktsn/libktsn.so"`} {
		if !strings.Contains(text, kept) {
			t.Errorf("%s has no %s", text, kept)
		}
	}
}

func TestPatchIsIdempotent(t *testing.T) {
	pod := parsePod(t, annotated("", appContainer))
	must(t, mutate(pod, "ns", []string{"tsn"}, ""))
	before := pod.DeepCopy()
	must(t, mutate(pod, "ns", []string{"tsn"}, ""))
	if p := newPatch(t, before, pod); len(p) > 0 {
		t.Errorf("it is patched with %v", p)
	}
}
