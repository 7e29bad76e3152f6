// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
)

// patchOf returns the difference between a pod and its mutated copy. It names single fields, so that fields of a newer API server that
// these types do not have stay unchanged. The library compares lists by index; therefore the wait container, which goes before the other
// init containers, is compared at its previous index and moved afterwards.
func patchOf(before, after *corev1.Pod) ([]jsonpatch.JsonPatchOperation, error) {
	inits, waiter, index := splitWaiter(before, after)
	unmoved := *after
	unmoved.Spec.InitContainers = inits
	previous, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(&unmoved)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreatePatch(previous, current)
	switch {
	case err != nil || waiter == nil:
		return patch, err
	case len(before.Spec.InitContainers) == 0:
		return append(patch, jsonpatch.NewOperation("add", "/spec/initContainers", []corev1.Container{*waiter})), nil
	case index >= 0:
		patch = append(patch, jsonpatch.NewOperation("remove", fmt.Sprintf("/spec/initContainers/%d", index), nil))
	}
	return append(patch, jsonpatch.NewOperation("add", "/spec/initContainers/0", *waiter)), nil
}

// splitWaiter returns the init containers of a changed pod in the order of the original, and the wait container, nil if it has not moved.
// index is its previous index, -1 if it is new.
func splitWaiter(before, after *corev1.Pod) (inits []corev1.Container, waiter *corev1.Container, index int) {
	index = slices.IndexFunc(before.Spec.InitContainers, isWaiter)
	now := after.Spec.InitContainers
	switch {
	case len(now) == 0 || !isWaiter(now[0]) || index == 0:
		return now, nil, index
	case index < 0:
		return now[1:], &now[0], index
	}
	return slices.Insert(slices.Clone(now[1:]), index, now[0]), &now[0], index
}
