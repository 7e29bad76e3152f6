// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	netutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// attach names networks in the annotation by which Multus attaches pods. The first network's interface is tsn0, the second's tsn1, and so
// on.
func attach(pod *corev1.Pod, namespace string, networks []string, machine device.Device) error {
	arguments, err := argumentsOf(pod, machine)
	if err != nil {
		return err
	}
	var all []attachment
	for number, network := range networks {
		all = append(all, attachment{Name: network, Interface: tsnnetwork.InterfaceOf(number), Arguments: arguments})
	}
	return addAttachments(pod, namespace, all)
}

// addAttachments adds to the annotation of Multus what it does not name already.
func addAttachments(pod *corev1.Pod, namespace string, all []attachment) error {
	text := pod.Annotations[nettypes.NetworkAttachmentAnnot]
	have, err := attachmentsOf(pod, namespace)
	if err != nil {
		return err
	}
	for i := range all {
		wanted := &all[i]
		at, err := attached(have, namespace, wanted)
		if err != nil {
			return err
		}
		if at >= 0 {
			text, err = completeAttachment(text, have, at, wanted)
		} else {
			text, err = appendAttachment(text, have, wanted)
		}
		if err != nil {
			return err
		}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[nettypes.NetworkAttachmentAnnot] = text
	return nil
}

// attachmentsOf reads the annotation of Multus.
func attachmentsOf(pod *corev1.Pod, namespace string) ([]*nettypes.NetworkSelectionElement, error) {
	text := pod.Annotations[nettypes.NetworkAttachmentAnnot]
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := withoutNull(text); err != nil {
		return nil, err
	}
	have, err := netutils.ParseNetworkAnnotation(text, namespace)
	if err != nil {
		return nil, fmt.Errorf("annotation %s cannot be read, so no network can be added to it: %w", nettypes.NetworkAttachmentAnnot, err)
	}
	return have, nil
}

// withoutNull refuses a null among JSON's attachments, by which the library panics.
func withoutNull(text string) error {
	var list []*json.RawMessage
	if json.Unmarshal([]byte(text), &list) == nil && slices.Contains(list, nil) {
		return fmt.Errorf("annotation %s has a null among its attachments; remove it", nettypes.NetworkAttachmentAnnot)
	}
	return nil
}

// attached finds a network among the attachments, -1 if it is not there, and refuses another one of its interface.
func attached(have []*nettypes.NetworkSelectionElement, namespace string, wanted *attachment) (at int, err error) {
	if wanted.Namespace != "" {
		namespace = wanted.Namespace
	}
	for at, element := range have {
		switch {
		case element.Name == wanted.Name && element.Namespace == namespace:
			return at, nil
		case element.InterfaceRequest == wanted.Interface:
			return -1, fmt.Errorf("annotation %s gives interface %s to %s/%s, and it is that of network %s; name another interface there",
				nettypes.NetworkAttachmentAnnot, wanted.Interface, element.Namespace, element.Name, wanted.Name)
		}
	}
	return -1, nil
}

// completeAttachment gives one that is there the arguments that it lacks, and leaves the rest of it as it is. KubeVirt adds those of its
// virtual machines itself.
func completeAttachment(text string, have []*nettypes.NetworkSelectionElement, at int, wanted *attachment) (string, error) {
	missing, err := wanted.missingFrom(have[at])
	if err != nil || len(missing) == 0 {
		return text, err
	}
	list, err := asJSON(text, have)
	if err != nil {
		return "", err
	}
	var element map[string]any
	if err := json.Unmarshal(list[at], &element); err != nil {
		return "", fmt.Errorf("annotation %s has an attachment that is no object: %w", nettypes.NetworkAttachmentAnnot, err)
	}
	if given, ok := element[argumentsKey].(map[string]any); ok {
		maps.Copy(missing, given)
	}
	element[argumentsKey] = missing
	if list[at], err = json.Marshal(element); err != nil {
		return "", err
	}
	joined, err := json.Marshal(list)
	return string(joined), err
}

// asJSON is the list of attachments in the form that has arguments.
func asJSON(text string, have []*nettypes.NetworkSelectionElement) (list []json.RawMessage, err error) {
	written := []byte(text)
	if !isJSON(text) {
		if written, err = json.Marshal(have); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(written, &list); err != nil {
		return nil, fmt.Errorf("annotation %s is no list: %w", nettypes.NetworkAttachmentAnnot, err)
	}
	return list, nil
}

func isJSON(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "[") }

// appendAttachment keeps the form that the annotation has: a list of names between commas, or JSON. Arguments are there in
// JSON only.
func appendAttachment(text string, have []*nettypes.NetworkSelectionElement, wanted *attachment) (string, error) {
	text = strings.TrimSpace(text)
	if !isJSON(text) && wanted.Arguments == nil {
		if text != "" {
			text += ","
		}
		return text + wanted.full() + "@" + wanted.Interface, nil
	}
	list, err := asJSON(text, have)
	if err != nil {
		return "", err
	}
	added, err := json.Marshal(wanted)
	if err != nil {
		return "", err
	}
	joined, err := json.Marshal(append(list, added))
	return string(joined), err
}
