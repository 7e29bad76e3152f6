// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// attachment is one that the webhook adds, as Multus reads it.
type attachment struct {
	// Arguments are those of tsn-cni for this pod.
	Arguments map[string]any `json:"cni-args,omitempty"`
	Interface string         `json:"interface"`
	Name      string         `json:"name"`
}

// unseenArgument is the field of tsn-cni's args.cni.
const unseenArgument = "unseen"

// unseenOf reads what shall become of datagrams that libktsn.so does not see, as arguments of tsn-cni; nil: what the network has.
func unseenOf(pod *corev1.Pod) (map[string]any, error) {
	value, given := pod.Annotations[v1alpha1.UnseenAnnotation]
	if !given {
		return nil, nil
	}
	if value != v1alpha1.UnseenDrop && value != v1alpha1.UnseenPass {
		return nil, fmt.Errorf("annotation %s is %q; write %s, or %s to let datagrams leave early that libktsn.so does not see",
			v1alpha1.UnseenAnnotation, value, v1alpha1.UnseenDrop, v1alpha1.UnseenPass)
	}
	return map[string]any{unseenArgument: value}, nil
}

// isAsked refuses an attachment that is there already without what the pod's annotation asks for.
func (a *attachment) isAsked(element *nettypes.NetworkSelectionElement) error {
	if a.Arguments == nil {
		return nil
	}
	if element.CNIArgs != nil {
		if value, ok := (*element.CNIArgs)[unseenArgument].(string); ok && value == a.Arguments[unseenArgument] {
			return nil
		}
	}
	return fmt.Errorf("annotation %s has the attachment %s already, so annotation %s cannot be added to it; remove one of the two, or give the attachment "+
		"\"cni-args\": {%q: %q}", nettypes.NetworkAttachmentAnnot, a.Name, v1alpha1.UnseenAnnotation, unseenArgument, a.Arguments[unseenArgument])
}
