// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	netutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// attach names networks in the annotation by which Multus attaches pods, beside what it names already. The first
// network's interface is tsn0, the second's tsn1, and so on.
func attach(pod *corev1.Pod, namespace string, networks []string) error {
	text := pod.Annotations[nettypes.NetworkAttachmentAnnot]
	var have []*nettypes.NetworkSelectionElement
	if strings.TrimSpace(text) != "" {
		if err := withoutNull(text); err != nil {
			return err
		}
		var err error
		if have, err = netutils.ParseNetworkAnnotation(text, namespace); err != nil {
			return fmt.Errorf("annotation %s cannot be read, so no network can be added to it: %w", nettypes.NetworkAttachmentAnnot, err)
		}
	}
	arguments, err := argumentsOf(pod)
	if err != nil {
		return err
	}
	for number, network := range networks {
		wanted := attachment{Name: network, Interface: tsnnetwork.InterfaceOf(number), Arguments: arguments}
		there, err := attached(have, namespace, &wanted)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		if text, err = appendAttachment(text, have, &wanted); err != nil {
			return err
		}
	}
	pod.Annotations[nettypes.NetworkAttachmentAnnot] = text // there are annotations, or the webhook were not asked
	return nil
}

// withoutNull refuses a null among JSON's attachments, by which the library panics.
func withoutNull(text string) error {
	var list []*json.RawMessage
	if json.Unmarshal([]byte(text), &list) == nil && slices.Contains(list, nil) {
		return fmt.Errorf("annotation %s has a null among its attachments; remove it", nettypes.NetworkAttachmentAnnot)
	}
	return nil
}

// attached tells whether a network is among the attachments, and refuses another one of its interface.
func attached(have []*nettypes.NetworkSelectionElement, namespace string, wanted *attachment) (bool, error) {
	for _, element := range have {
		switch {
		case element.Name == wanted.Name && element.Namespace == namespace:
			return true, wanted.isAsked(element)
		case element.InterfaceRequest == wanted.Interface:
			return false, fmt.Errorf("annotation %s gives interface %s to %s/%s, and it is that of network %s; name another interface there",
				nettypes.NetworkAttachmentAnnot, wanted.Interface, element.Namespace, element.Name, wanted.Name)
		}
	}
	return false, nil
}

// appendAttachment keeps the form that the annotation has: a list of names between commas, or JSON. Arguments are there in
// JSON only.
func appendAttachment(text string, have []*nettypes.NetworkSelectionElement, wanted *attachment) (string, error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "[") && wanted.Arguments == nil {
		if text != "" {
			text += ","
		}
		return text + wanted.Name + "@" + wanted.Interface, nil
	}
	var list []json.RawMessage
	if !strings.HasPrefix(text, "[") {
		written, err := json.Marshal(have)
		if err != nil {
			return "", err
		}
		text = string(written)
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return "", fmt.Errorf("annotation %s is no list: %w", nettypes.NetworkAttachmentAnnot, err)
	}
	added, err := json.Marshal(wanted)
	if err != nil {
		return "", err
	}
	joined, err := json.Marshal(append(list, added))
	return string(joined), err
}
