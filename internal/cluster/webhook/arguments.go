// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// attachment is one that the webhook adds, as Multus reads it.
type attachment struct {
	// Arguments are those of tsn-cni for this pod.
	Arguments map[string]any `json:"cni-args,omitempty"`
	Interface string         `json:"interface"`
	Name      string         `json:"name"`
	// Namespace is that of the definition, "" for the pod's own.
	Namespace string `json:"namespace,omitempty"`
}

// full is the definition's name as annotations have it.
func (a *attachment) full() string {
	if a.Namespace == "" {
		return a.Name
	}
	return a.Namespace + "/" + a.Name
}

// argumentsKey is where an attachment has them.
const argumentsKey = "cni-args"

// Names of fields of tsn-cni's args.cni.
const (
	unseenArgument  = "unseen"
	receiveArgument = "receive"
)

// annotationOf is the annotation by which a pod gives a field.
func annotationOf(argument string) string {
	switch argument {
	case unseenArgument:
		return v1alpha1.UnseenAnnotation
	case receiveArgument:
		return v1alpha1.ReceiveAnnotation
	}
	if argument == device.DANName {
		return v1alpha1.DeviceAnnotation // which the runtime class stands beside
	}
	return deviceAnnotations[argument]
}

// argumentsOf reads what annotations ask of tsn-cni for this pod, besides its device; nil: nothing.
func argumentsOf(pod *corev1.Pod, wanted device.Device) (map[string]any, error) {
	arguments := map[string]any{}
	if value, given := pod.Annotations[v1alpha1.UnseenAnnotation]; given {
		if value != v1alpha1.UnseenDrop && value != v1alpha1.UnseenPass {
			return nil, fmt.Errorf("annotation %s is %q; write %s, or %s to let datagrams leave early that libktsn.so does not see",
				v1alpha1.UnseenAnnotation, value, v1alpha1.UnseenDrop, v1alpha1.UnseenPass)
		}
		arguments[unseenArgument] = value
	}
	if value, given := pod.Annotations[v1alpha1.ReceiveAnnotation]; given {
		if value != v1alpha1.ReceiveRing {
			return nil, fmt.Errorf("annotation %s is %q; write %s, or leave the annotation out to have the kernel serve all sockets",
				v1alpha1.ReceiveAnnotation, value, v1alpha1.ReceiveRing)
		}
		arguments[receiveArgument] = value
	}
	if wanted.Exists() {
		maps.Copy(arguments, deviceArguments(wanted))
	}
	if len(arguments) == 0 {
		return nil, nil
	}
	return arguments, nil
}

// missingFrom returns the arguments that an attachment which is there already lacks. One that it has otherwise is refused.
func (a *attachment) missingFrom(element *nettypes.NetworkSelectionElement) (map[string]any, error) {
	missing := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(a.Arguments)) {
		var has any
		given := false
		if element.CNIArgs != nil {
			has, given = (*element.CNIArgs)[name]
		}
		if !given {
			missing[name] = a.Arguments[name]
			continue
		}
		have, errHave := json.Marshal(has)
		want, errWant := json.Marshal(a.Arguments[name])
		if errHave != nil || errWant != nil || !bytes.Equal(have, want) {
			return nil, fmt.Errorf("annotation %s gives the attachment %s the argument %q: %s, and by annotation %s it is %s; remove one of the two",
				nettypes.NetworkAttachmentAnnot, a.Name, name, have, annotationOf(name), want)
		}
	}
	return missing, nil
}
