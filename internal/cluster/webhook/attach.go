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

// attach adds networks to the annotation of Multus. Their interfaces are tsn0, tsn1 and so on.
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

// addAttachments adds missing attachments to the annotation of Multus.
func addAttachments(pod *corev1.Pod, namespace string, all []attachment) error {
	text := pod.Annotations[nettypes.NetworkAttachmentAnnot]
	existing, err := attachmentsOf(pod, namespace)
	if err != nil {
		return err
	}
	for i := range all {
		wanted := &all[i]
		at, err := findAttachment(existing, namespace, wanted)
		if err != nil {
			return err
		}
		if at >= 0 {
			text, err = completeAttachment(text, existing, at, wanted)
		} else {
			text, err = appendAttachment(text, existing, wanted)
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

// attachmentsOf parses the annotation of Multus.
func attachmentsOf(pod *corev1.Pod, namespace string) ([]*nettypes.NetworkSelectionElement, error) {
	text := pod.Annotations[nettypes.NetworkAttachmentAnnot]
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := rejectNull(text); err != nil {
		return nil, err
	}
	existing, err := netutils.ParseNetworkAnnotation(text, namespace)
	if err != nil {
		return nil, fmt.Errorf("annotation %s cannot be parsed, so no network can be added to it: %w", nettypes.NetworkAttachmentAnnot, err)
	}
	return existing, nil
}

// rejectNull returns an error for a null in the JSON list, on which the library panics.
func rejectNull(text string) error {
	var list []*json.RawMessage
	if json.Unmarshal([]byte(text), &list) == nil && slices.Contains(list, nil) {
		return fmt.Errorf("annotation %s has a null among its attachments; remove it", nettypes.NetworkAttachmentAnnot)
	}
	return nil
}

// findAttachment returns the index of an attachment, -1 if it is missing. It returns an error if another attachment has its interface.
func findAttachment(existing []*nettypes.NetworkSelectionElement, namespace string, wanted *attachment) (at int, err error) {
	if wanted.Namespace != "" {
		namespace = wanted.Namespace
	}
	for at, element := range existing {
		switch {
		case element.Name == wanted.Name && element.Namespace == namespace:
			return at, nil
		case element.InterfaceRequest == wanted.Interface:
			return -1, fmt.Errorf("annotation %s gives interface %s to %s/%s, but it is reserved for network %s; use another interface there",
				nettypes.NetworkAttachmentAnnot, wanted.Interface, element.Namespace, element.Name, wanted.Name)
		}
	}
	return -1, nil
}

// completeAttachment adds missing arguments to an existing attachment. KubeVirt adds the attachments of its virtual machines itself.
func completeAttachment(text string, existing []*nettypes.NetworkSelectionElement, at int, wanted *attachment) (string, error) {
	missing, err := wanted.missingFrom(existing[at])
	if err != nil || len(missing) == 0 {
		return text, err
	}
	return changeAttachment(text, existing, at, func(element map[string]any) {
		if given, ok := element[argumentsKey].(map[string]any); ok {
			maps.Copy(missing, given)
		}
		element[argumentsKey] = missing
	})
}

// changeAttachment changes fields of an existing attachment.
func changeAttachment(text string, existing []*nettypes.NetworkSelectionElement, at int, change func(element map[string]any)) (string, error) {
	list, err := toJSON(text, existing)
	if err != nil {
		return "", err
	}
	var element map[string]any
	if err := json.Unmarshal(list[at], &element); err != nil {
		return "", fmt.Errorf("annotation %s has an attachment that is not an object: %w", nettypes.NetworkAttachmentAnnot, err)
	}
	change(element)
	if list[at], err = json.Marshal(element); err != nil {
		return "", err
	}
	joined, err := json.Marshal(list)
	return string(joined), err
}

// toJSON returns the attachments in the JSON form, which has arguments.
func toJSON(text string, existing []*nettypes.NetworkSelectionElement) (list []json.RawMessage, err error) {
	written := []byte(text)
	if !isJSON(text) {
		if written, err = json.Marshal(existing); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(written, &list); err != nil {
		return nil, fmt.Errorf("annotation %s is not a list: %w", nettypes.NetworkAttachmentAnnot, err)
	}
	return list, nil
}

func isJSON(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "[") }

// appendAttachment appends an attachment in the annotation's form, comma-separated names or JSON. Only JSON has arguments.
func appendAttachment(text string, existing []*nettypes.NetworkSelectionElement, wanted *attachment) (string, error) {
	text = strings.TrimSpace(text)
	if !isJSON(text) && wanted.Arguments == nil {
		if text != "" {
			text += ","
		}
		return text + wanted.fullName() + "@" + wanted.Interface, nil
	}
	list, err := toJSON(text, existing)
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
