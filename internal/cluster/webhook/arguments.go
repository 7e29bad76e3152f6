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

// attachment is an attachment that the webhook adds, in the format of Multus.
type attachment struct {
	// Arguments are the arguments of tsn-cni for this pod.
	Arguments map[string]any `json:"cni-args,omitempty"`
	Interface string         `json:"interface"`
	Name      string         `json:"name"`
	// Namespace is the namespace of the definition, "" for the pod's.
	Namespace string `json:"namespace,omitempty"`
}

// fullName returns the definition's name in the format of annotations.
func (a *attachment) fullName() string {
	if a.Namespace == "" {
		return a.Name
	}
	return a.Namespace + "/" + a.Name
}

// argumentsKey is the JSON key of Arguments.
const argumentsKey = "cni-args"

// Names of fields of tsn-cni's args.cni.
const (
	unseenArgument     = "unseen"
	offNetworkArgument = "offNetwork"
	receiveArgument    = "receive"
)

// annotationOf returns the annotation that sets an argument.
func annotationOf(argument string) string {
	switch argument {
	case unseenArgument:
		return v1alpha1.UnseenAnnotation
	case offNetworkArgument:
		return v1alpha1.OffNetworkAnnotation
	case receiveArgument:
		return v1alpha1.ReceiveAnnotation
	}
	if argument == device.DANName {
		return v1alpha1.DeviceAnnotation // the folder follows from the device and the runtime class
	}
	return deviceAnnotations[argument]
}

// argumentsOf returns the arguments of tsn-cni from the pod's annotations and its device, nil for none.
func argumentsOf(pod *corev1.Pod, vmDevice device.Device) (map[string]any, error) {
	arguments := map[string]any{}
	if value, given := pod.Annotations[v1alpha1.UnseenAnnotation]; given {
		if value != v1alpha1.UnseenDrop && value != v1alpha1.UnseenPass {
			return nil, fmt.Errorf("annotation %s is %q; write %s, or %s to let datagrams leave early that libktsn.so does not see",
				v1alpha1.UnseenAnnotation, value, v1alpha1.UnseenDrop, v1alpha1.UnseenPass)
		}
		arguments[unseenArgument] = value
	}
	if value, given := pod.Annotations[v1alpha1.OffNetworkAnnotation]; given {
		if value != v1alpha1.OffNetworkRefuse && value != v1alpha1.OffNetworkPass {
			return nil, fmt.Errorf("annotation %s is %q; write %s, or %s to let messages leave early that other interfaces of the pod send",
				v1alpha1.OffNetworkAnnotation, value, v1alpha1.OffNetworkRefuse, v1alpha1.OffNetworkPass)
		}
		arguments[offNetworkArgument] = value
	}
	if value, given := pod.Annotations[v1alpha1.ReceiveAnnotation]; given {
		if value != v1alpha1.ReceiveRing {
			return nil, fmt.Errorf("annotation %s is %q; write %s, or leave the annotation out to have the kernel serve all sockets",
				v1alpha1.ReceiveAnnotation, value, v1alpha1.ReceiveRing)
		}
		arguments[receiveArgument] = value
	}
	if vmDevice.Exists() {
		maps.Copy(arguments, deviceArguments(vmDevice))
	}
	if len(arguments) == 0 {
		return nil, nil
	}
	return arguments, nil
}

// missingFrom returns the arguments that an existing attachment lacks, and an error if it has one with another value.
func (a *attachment) missingFrom(element *nettypes.NetworkSelectionElement) (map[string]any, error) {
	missing := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(a.Arguments)) {
		var value any
		given := false
		if element.CNIArgs != nil {
			value, given = (*element.CNIArgs)[name]
		}
		if !given {
			missing[name] = a.Arguments[name]
			continue
		}
		have, errHave := json.Marshal(value)
		want, errWant := json.Marshal(a.Arguments[name])
		if errHave != nil || errWant != nil || !bytes.Equal(have, want) {
			return nil, fmt.Errorf("annotation %s gives the attachment %s the argument %q: %s, and by annotation %s it is %s; remove one of the two",
				nettypes.NetworkAttachmentAnnot, a.Name, name, have, annotationOf(name), want)
		}
	}
	return missing, nil
}
