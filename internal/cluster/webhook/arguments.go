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

// argument is a field of tsn-cni's args.cni that an annotation of the pod gives.
type argument struct{ name, annotation string }

var (
	unseenArgument  = argument{"unseen", v1alpha1.UnseenAnnotation}
	receiveArgument = argument{"receive", v1alpha1.ReceiveAnnotation}
)

// argumentsOf reads what annotations ask of tsn-cni for this pod; nil: nothing.
func argumentsOf(pod *corev1.Pod) (map[string]any, error) {
	arguments := map[string]any{}
	if value, given := pod.Annotations[v1alpha1.UnseenAnnotation]; given {
		if value != v1alpha1.UnseenDrop && value != v1alpha1.UnseenPass {
			return nil, fmt.Errorf("annotation %s is %q; write %s, or %s to let datagrams leave early that libktsn.so does not see",
				v1alpha1.UnseenAnnotation, value, v1alpha1.UnseenDrop, v1alpha1.UnseenPass)
		}
		arguments[unseenArgument.name] = value
	}
	if value, given := pod.Annotations[v1alpha1.ReceiveAnnotation]; given {
		if value != v1alpha1.ReceiveRing {
			return nil, fmt.Errorf("annotation %s is %q; write %s, or leave the annotation out to have the kernel serve all sockets",
				v1alpha1.ReceiveAnnotation, value, v1alpha1.ReceiveRing)
		}
		arguments[receiveArgument.name] = value
	}
	if len(arguments) == 0 {
		return nil, nil
	}
	return arguments, nil
}

// isAsked refuses an attachment that is there already without what the pod's annotations ask for.
func (a *attachment) isAsked(element *nettypes.NetworkSelectionElement) error {
	for _, one := range []argument{unseenArgument, receiveArgument} {
		wanted, asked := a.Arguments[one.name]
		if !asked {
			continue
		}
		if element.CNIArgs != nil {
			if value, ok := (*element.CNIArgs)[one.name].(string); ok && value == wanted {
				continue
			}
		}
		return fmt.Errorf("annotation %s has the attachment %s already, so annotation %s cannot be added to it; remove one of the two, or give the attachment "+
			"\"cni-args\": {%q: %q}", nettypes.NetworkAttachmentAnnot, a.Name, one.annotation, one.name, wanted)
	}
	return nil
}
