// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// maxNetworks of one pod: its interfaces are numbered with one digit.
const maxNetworks = 10

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// NetworksOf reads which networks a pod's annotation names.
func NetworksOf(value string) ([]string, error) {
	names, err := list(v1alpha1.NetworkAnnotation, value)
	if err == nil && len(names) > maxNetworks {
		err = fmt.Errorf("annotation %s names %d networks; a pod can be on %d", v1alpha1.NetworkAnnotation, len(names), maxNetworks)
	}
	return names, err
}

// ContainersOf reads which containers a pod's annotation names.
func ContainersOf(value string) ([]string, error) { return list(v1alpha1.ContainersAnnotation, value) }

// LinkRoutesOf reads in which ranges a pod takes routes of services of other namespaces, none where the annotation is missing.
func LinkRoutesOf(value string) (ranges []netip.Prefix, err error) {
	if value == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(value, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(word))
		if err != nil || prefix != prefix.Masked() {
			return nil, fmt.Errorf("annotation %s: %q is no range; give ranges written by their first addresses, such as 10.9.0.0/16, between commas",
				v1alpha1.LinkRoutesAnnotation, Shorten(word, mostOfName))
		}
		ranges = append(ranges, prefix)
	}
	return ranges, nil
}

// InterfaceOf is the interface of a pod's network, counted from 0.
func InterfaceOf(number int) string { return fmt.Sprintf("tsn%d", number) }

// list reads names between commas.
func list(annotation, value string) ([]string, error) {
	if strings.TrimSpace(value) == "" {
		return nil, fmt.Errorf("annotation %s is empty; give a name, or several between commas", annotation)
	}
	var names []string
	for word := range strings.SplitSeq(value, ",") {
		name := strings.TrimSpace(word)
		switch {
		case !nameForm.MatchString(name):
			return nil, fmt.Errorf("annotation %s: %q is no name; give names of small letters, digits and hyphens between commas",
				annotation, Shorten(name, mostOfName))
		case slices.Contains(names, name):
			return nil, fmt.Errorf("annotation %s names %s twice", annotation, name)
		}
		names = append(names, name)
	}
	return names, nil
}

// mostOfName is how much of what is no name a sentence quotes.
const mostOfName = 70

// Shorten is a text, cut where it has more bytes.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
