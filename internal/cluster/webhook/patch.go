// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
)

// patch is what a pod lacks of what mutate has made of it. It names single fields, so that those of a newer API server, which
// the types here do not know, stay as they are.
type patch []jsonpatch.JsonPatchOperation

// patchOf finds what mutate and avoidLost may have changed: annotations, labels, volumes, variables and mounts of containers, affinity,
// and a first init container.
func patchOf(before, after *corev1.Pod) patch {
	var p patch
	p.texts("/metadata/annotations", before.Annotations, after.Annotations)
	p.texts("/metadata/labels", before.Labels, after.Labels)
	inits, waits, was := withoutWaiter(before, after)
	p.containers("/spec/initContainers", before.Spec.InitContainers, inits)
	p.containers("/spec/containers", before.Spec.Containers, after.Spec.Containers)
	tail(&p, "/spec/volumes", before.Spec.Volumes, after.Spec.Volumes)
	p.affinity(before.Spec.Affinity, after.Spec.Affinity)
	switch { // behind the others, whose numbers it changes
	case waits == nil:
	case len(before.Spec.InitContainers) == 0:
		p.add("/spec/initContainers", []corev1.Container{*waits})
	default:
		if was >= 0 {
			p = append(p, jsonpatch.NewOperation("remove", fmt.Sprintf("/spec/initContainers/%d", was), nil))
		}
		p.add("/spec/initContainers/0", *waits)
	}
	return p
}

// add adds a member of an object or puts another in its place.
func (p *patch) add(path string, value any) {
	*p = append(*p, jsonpatch.NewOperation("add", path, value))
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

func (p *patch) texts(path string, before, after map[string]string) {
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
		tail(p, at+"/env", before[i].Env, after[i].Env)
		tail(p, at+"/volumeMounts", before[i].VolumeMounts, after[i].VolumeMounts)
	}
}

// tail adds what a list has become longer by.
func tail[Entry any](p *patch, path string, before, after []Entry) {
	if len(before) == 0 && len(after) > 0 {
		p.add(path, after)
		return
	}
	for i := len(before); i < len(after); i++ {
		p.add(path+"/-", after[i])
	}
}
