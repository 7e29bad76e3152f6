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

// maxNetworks is the maximum number of networks of a pod: its interfaces are numbered with one digit.
const maxNetworks = 10

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// NetworksOf parses a pod's annotation with the names of its networks.
func NetworksOf(value string) ([]string, error) {
	names, err := parseList(v1alpha1.NetworkAnnotation, value)
	if err == nil && len(names) > maxNetworks {
		err = fmt.Errorf("annotation %s names %d networks; a pod can be on %d", v1alpha1.NetworkAnnotation, len(names), maxNetworks)
	}
	return names, err
}

// ContainersOf parses a pod's annotation with the names of containers.
func ContainersOf(value string) ([]string, error) {
	return parseList(v1alpha1.ContainersAnnotation, value)
}

// LinkRoutesOf parses a pod's annotation with the ranges in which it accepts routes of services of other namespaces.
func LinkRoutesOf(value string) (ranges []netip.Prefix, err error) {
	if value == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(value, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(word))
		if err != nil || prefix != prefix.Masked() {
			return nil, fmt.Errorf("annotation %s: %q is not a range; give comma-separated ranges written by their first addresses, such as 10.9.0.0/16",
				v1alpha1.LinkRoutesAnnotation, Shorten(word, maxQuotedBytes))
		}
		ranges = append(ranges, prefix)
	}
	return ranges, nil
}

// InterfaceOf returns the interface name of a pod's network, counted from 0.
func InterfaceOf(number int) string { return fmt.Sprintf("tsn%d", number) }

// parseList parses comma-separated names.
func parseList(annotation, value string) ([]string, error) {
	if strings.TrimSpace(value) == "" {
		return nil, fmt.Errorf("annotation %s is empty; give a name, or several between commas", annotation)
	}
	var names []string
	for word := range strings.SplitSeq(value, ",") {
		name := strings.TrimSpace(word)
		switch {
		case !namePattern.MatchString(name):
			return nil, fmt.Errorf("annotation %s: %q is no name; give names of small letters, digits and hyphens between commas",
				annotation, Shorten(name, maxQuotedBytes))
		case slices.Contains(names, name):
			return nil, fmt.Errorf("annotation %s names %s twice", annotation, name)
		}
		names = append(names, name)
	}
	return names, nil
}

// maxQuotedBytes limits invalid text in messages.
const maxQuotedBytes = 70

// Shorten truncates a text to a limit in bytes.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
