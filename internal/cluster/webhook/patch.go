// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
)

// patch is the difference between a pod and its mutated copy. It names single fields, so that fields of a newer API server that these
// types do not have stay unchanged.
type patch []jsonpatch.JsonPatchOperation

// patchOf compares the fields that this package may change: annotations, labels, volumes, variables and mounts of containers, affinity,
// and a first init container.
func patchOf(before, after *corev1.Pod) patch {
	var p patch
	p.stringMap("/metadata/annotations", before.Annotations, after.Annotations)
	p.stringMap("/metadata/labels", before.Labels, after.Labels)
	inits, waits, index := splitWaiter(before, after)
	p.containers("/spec/initContainers", before.Spec.InitContainers, inits)
	p.containers("/spec/containers", before.Spec.Containers, after.Spec.Containers)
	appendAll(&p, "/spec/volumes", before.Spec.Volumes, after.Spec.Volumes)
	p.affinity(before.Spec.Affinity, after.Spec.Affinity)
	switch { // last, because it changes the indices of the others
	case waits == nil:
	case len(before.Spec.InitContainers) == 0:
		p.add("/spec/initContainers", []corev1.Container{*waits})
	default:
		if index >= 0 {
			p = append(p, jsonpatch.NewOperation("remove", fmt.Sprintf("/spec/initContainers/%d", index), nil))
		}
		p.add("/spec/initContainers/0", *waits)
	}
	return p
}

// add adds or replaces a member of an object.
func (p *patch) add(path string, value any) {
	*p = append(*p, jsonpatch.NewOperation("add", path, value))
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

func (p *patch) stringMap(path string, before, after map[string]string) {
	if len(before) == 0 && len(after) > 0 {
		p.add(path, after)
		return
	}
	for name, value := range after {
		if had, known := before[name]; !known || had != value {
			p.add(path+"/"+escape.Replace(name), value)
		}
	}
}

func (p *patch) containers(path string, before, after []corev1.Container) {
	for i := range before {
		at := fmt.Sprintf("%s/%d", path, i)
		for j := range before[i].Env {
			if before[i].Env[j].Value != after[i].Env[j].Value {
				p.add(fmt.Sprintf("%s/env/%d/value", at, j), after[i].Env[j].Value)
			}
		}
		appendAll(p, at+"/env", before[i].Env, after[i].Env)
		appendAll(p, at+"/volumeMounts", before[i].VolumeMounts, after[i].VolumeMounts)
	}
}

// appendAll adds the entries that were appended to a list.
func appendAll[Entry any](p *patch, path string, before, after []Entry) {
	if len(before) == 0 && len(after) > 0 {
		p.add(path, after)
		return
	}
	for i := len(before); i < len(after); i++ {
		p.add(path+"/-", after[i])
	}
}
