// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// ErrNoUplink says that a network insists on uplinks, and names none for the node.
var ErrNoUplink = errors.New("none of spec.uplinks is for this node; give one whose nodeSelector fits the node's labels")

// UplinkOf is the uplink that a network insists on for a node; its interface is "" if it does not.
func UplinkOf(object *v1alpha1.TSNNetwork, node *corev1.Node) (v1alpha1.Uplink, error) {
	for _, uplink := range object.Spec.Uplinks {
		selector := labels.Everything()
		if uplink.NodeSelector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(uplink.NodeSelector); err != nil {
				return v1alpha1.Uplink{}, fmt.Errorf("spec.uplinks: %w", err)
			}
		}
		if selector.Matches(labels.Set(node.Labels)) {
			return uplink, nil
		}
	}
	if len(object.Spec.Uplinks) > 0 {
		return v1alpha1.Uplink{}, ErrNoUplink
	}
	return v1alpha1.Uplink{}, nil
}
