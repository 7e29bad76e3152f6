// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

const (
	// MaxClientLabels is the maximum number of services of which a pod is a client.
	MaxClientLabels = 16
	// maxInterfaceBytes is the kernel's limit: IFNAMSIZ without the terminating zero.
	maxInterfaceBytes = 15
	// maxPrefixBytes leaves room for the number of a link.
	maxPrefixBytes = 11
)

// Role is a pod's role by one label.
type Role struct {
	// Label is the label's key.
	Label string
	// Service and Namespace identify the TSNService.
	Service, Namespace string
	// Client is set for a client; otherwise the pod is an endpoint.
	Client bool
	// Interface is the name of the client's interface, or the prefix of an endpoint's interfaces.
	Interface string
}

// IsLinkLabel reports whether a label key is a link label.
func IsLinkLabel(key string) bool {
	return strings.HasPrefix(key, v1alpha1.ClientLabelPrefix) || strings.HasPrefix(key, v1alpha1.EndpointLabelPrefix)
}

// HasLinkLabel reports whether there is a link label.
func HasLinkLabel(labels map[string]string) bool {
	for key := range labels {
		if IsLinkLabel(key) {
			return true
		}
	}
	return false
}

var (
	servicePattern   = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$`)
	namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// LabelError is the error of one label.
type LabelError struct {
	Label string
	error
}

func (e *LabelError) Unwrap() error { return e.error }

// ParseRoles parses the link labels of a pod of a namespace, sorted by key. Invalid labels are skipped and returned as errors.
func ParseRoles(labels map[string]string, namespace string) (roles []Role, errs []*LabelError) {
	for key, value := range labels {
		if !IsLinkLabel(key) {
			continue
		}
		role, err := parseRole(key, value, namespace)
		if err != nil {
			errs = append(errs, &LabelError{key, err})
			continue
		}
		roles = append(roles, role)
	}
	slices.SortFunc(roles, func(a, b Role) int { return strings.Compare(a.Label, b.Label) })
	roles, duplicates := removeDuplicates(roles)
	errs = append(errs, duplicates...)
	slices.SortFunc(errs, func(a, b *LabelError) int { return strings.Compare(a.Label, b.Label) })
	return roles, errs
}

// removeDuplicates removes labels for a service of which the pod is already a client: the pod's own namespace can be given or omitted.
func removeDuplicates(roles []Role) (unique []Role, duplicates []*LabelError) {
	for i := range roles {
		role := &roles[i]
		at := slices.IndexFunc(unique, func(other Role) bool {
			return role.Client && other.Client && role.Service == other.Service && role.Namespace == other.Namespace
		})
		if at < 0 {
			unique = append(unique, *role)
			continue
		}
		duplicates = append(duplicates, &LabelError{role.Label, fmt.Errorf("labels %s and %s both request a link of TSNService %s/%s, and a pod gets one link of a service; remove one of them",
			unique[at].Label, role.Label, role.Namespace, role.Service)})
	}
	return unique, duplicates
}

func parseRole(key, value, namespace string) (Role, error) {
	role := Role{Label: key, Namespace: namespace, Interface: value}
	name, isClient := strings.CutPrefix(key, v1alpha1.ClientLabelPrefix)
	if isClient {
		role.Client = true
		if service, elsewhere, given := strings.Cut(name, "."); given {
			if !namespacePattern.MatchString(elsewhere) {
				return Role{}, fmt.Errorf("label %s: %q is not a namespace; write %sSERVICE.NAMESPACE", key, elsewhere, v1alpha1.ClientLabelPrefix)
			}
			name, role.Namespace = service, elsewhere
		}
	} else {
		name = strings.TrimPrefix(key, v1alpha1.EndpointLabelPrefix)
		if strings.Contains(name, ".") {
			return Role{}, fmt.Errorf("label %s names a namespace, and a pod is an endpoint of services of its own namespace only; write %sSERVICE",
				key, v1alpha1.EndpointLabelPrefix)
		}
	}
	if !servicePattern.MatchString(name) {
		return Role{}, fmt.Errorf("label %s: %q cannot be a TSNService; its name has 1 to 30 small letters, digits and hyphens and begins with a letter", key, name)
	}
	role.Service = name
	err := checkInterface(&role)
	return role, err
}

// reservedInterfaces are the names of the kernel's settings for all interfaces, which no interface can have.
var reservedInterfaces = []string{"all", "default"}

// checkInterface validates the label's value. With dots, the files of two links in the pod's volume could have the same name.
func checkInterface(role *Role) error {
	limit, what := maxInterfaceBytes, "the name of the interface that the link has in the pod"
	if !role.Client {
		limit, what = maxPrefixBytes, "what the names of the links' interfaces begin with; a number follows"
	}
	switch {
	case role.Interface == "":
		return fmt.Errorf("label %s is empty; its value is %s", role.Label, what)
	case len(role.Interface) > limit:
		return fmt.Errorf("label %s is %q, which has %d characters; its value is %s, and has %d at most", role.Label, role.Interface,
			len(role.Interface), what, limit)
	case strings.Contains(role.Interface, "."):
		return fmt.Errorf("label %s is %q; its value is %s, and has no dots", role.Label, role.Interface, what)
	case role.Client && slices.Contains(reservedInterfaces, role.Interface):
		return fmt.Errorf("label %s is %q, which means all interfaces to the kernel; use another name", role.Label, role.Interface)
	}
	return nil
}

// CheckInterfaces returns an error if an interface of a role conflicts with another role or with a name in taken, the pod's other interfaces
// with a description of each.
func CheckInterfaces(roles []Role, taken map[string]string) error {
	for i := range roles {
		role := &roles[i]
		for _, name := range sortedKeys(taken) {
			if role.matches(name) {
				return fmt.Errorf("label %s gives %s, and the pod already has an interface %s (%s); use another name", role.Label, role.describe(), name, taken[name])
			}
		}
		for j := range roles[:i] {
			if other := &roles[j]; role.overlaps(other) {
				return fmt.Errorf("labels %s and %s give %s and %s, which can be the same interface; use names that differ by more than a number",
					other.Label, role.Label, other.describe(), role.describe())
			}
		}
	}
	return nil
}

// describe describes the interfaces of a role.
func (r *Role) describe() string {
	if r.Client {
		return "interface " + r.Interface
	}
	return "interfaces " + r.Interface + "0, " + r.Interface + "1 and so on"
}

// matches reports whether a name can be an interface of the role.
func (r *Role) matches(name string) bool {
	if r.Client {
		return r.Interface == name
	}
	number, begins := strings.CutPrefix(name, r.Interface)
	return begins && isNumber(number)
}

// overlaps reports whether two roles can have the same interface.
func (r *Role) overlaps(other *Role) bool {
	switch {
	case r.Client:
		return other.matches(r.Interface)
	case other.Client:
		return r.matches(other.Interface)
	}
	longer, shorter := r.Interface, other.Interface
	if len(longer) < len(shorter) {
		longer, shorter = shorter, longer
	}
	rest, begins := strings.CutPrefix(longer, shorter)
	return begins && (rest == "" || isNumber(rest))
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
