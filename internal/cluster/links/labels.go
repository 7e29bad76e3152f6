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
	// MaxClientLabels is how many services a pod may be a client of.
	MaxClientLabels = 16
	// maxInterface is the kernel's: IFNAMSIZ less the zero.
	maxInterface = 15
	// maxPrefix leaves room for the number of a link.
	maxPrefix = 11
)

// Role is what a label makes of a pod.
type Role struct {
	// Label is the label's key.
	Label string
	// Service is the TSNService's name, and Namespace where it is.
	Service, Namespace string
	// Client tells whether the pod wants a link, or else offers the service.
	Client bool
	// Interface is the name of the client's interface, or what those of an endpoint begin with.
	Interface string
}

// IsLinkLabel tells whether a label of a pod is one of links.
func IsLinkLabel(key string) bool {
	return strings.HasPrefix(key, v1alpha1.ClientLabelPrefix) || strings.HasPrefix(key, v1alpha1.EndpointLabelPrefix)
}

// HasLinkLabel tells whether a pod has such a label.
func HasLinkLabel(labels map[string]string) bool {
	for key := range labels {
		if IsLinkLabel(key) {
			return true
		}
	}
	return false
}

var (
	serviceForm   = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$`)
	namespaceForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// LabelError says what is wrong with one label.
type LabelError struct {
	Label string
	error
}

func (e *LabelError) Unwrap() error { return e.error }

// RolesOf reads the labels of a pod of a namespace, in the order of their keys. Labels that cannot be read are left out and said.
func RolesOf(labels map[string]string, namespace string) (roles []Role, wrong []*LabelError) {
	for key, value := range labels {
		if !IsLinkLabel(key) {
			continue
		}
		role, err := roleOf(key, value, namespace)
		if err != nil {
			wrong = append(wrong, &LabelError{key, err})
			continue
		}
		roles = append(roles, role)
	}
	slices.SortFunc(roles, func(a, b Role) int { return strings.Compare(a.Label, b.Label) })
	roles, twice := onceEach(roles)
	wrong = append(wrong, twice...)
	slices.SortFunc(wrong, func(a, b *LabelError) int { return strings.Compare(a.Label, b.Label) })
	return roles, wrong
}

// onceEach leaves out labels of services of which a pod is a client by another label: its own namespace can be written and left out.
func onceEach(roles []Role) (once []Role, wrong []*LabelError) {
	for i := range roles {
		role := &roles[i]
		at := slices.IndexFunc(once, func(other Role) bool {
			return role.Client && other.Client && role.Service == other.Service && role.Namespace == other.Namespace
		})
		if at < 0 {
			once = append(once, *role)
			continue
		}
		wrong = append(wrong, &LabelError{role.Label, fmt.Errorf("labels %s and %s ask TSNService %s/%s for a link each, and a pod gets one of a service; remove one of them",
			once[at].Label, role.Label, role.Namespace, role.Service)})
	}
	return once, wrong
}

func roleOf(key, value, namespace string) (Role, error) {
	role := Role{Label: key, Namespace: namespace, Interface: value}
	name, isClient := strings.CutPrefix(key, v1alpha1.ClientLabelPrefix)
	if isClient {
		role.Client = true
		if service, elsewhere, given := strings.Cut(name, "."); given {
			if !namespaceForm.MatchString(elsewhere) {
				return Role{}, fmt.Errorf("label %s: %q is no namespace; write %sSERVICE.NAMESPACE", key, elsewhere, v1alpha1.ClientLabelPrefix)
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
	if !serviceForm.MatchString(name) {
		return Role{}, fmt.Errorf("label %s: %q cannot be a TSNService; its name has 1 to 30 small letters, digits and hyphens and begins with a letter", key, name)
	}
	role.Service = name
	err := checkInterface(&role)
	return role, err
}

// notInterfaces are names by which the kernel has settings of all interfaces, so that none can have them.
var notInterfaces = []string{"all", "default"}

// checkInterface checks the label's value. A dot would let the files of two links in the pod's volume have one name.
func checkInterface(role *Role) error {
	most, what := maxInterface, "the name of the interface that the link has in the pod"
	if !role.Client {
		most, what = maxPrefix, "what the names of the links' interfaces begin with; a number follows"
	}
	switch {
	case role.Interface == "":
		return fmt.Errorf("label %s is empty; its value is %s", role.Label, what)
	case len(role.Interface) > most:
		return fmt.Errorf("label %s is %q, which has %d characters; its value is %s, and has %d at most", role.Label, role.Interface,
			len(role.Interface), what, most)
	case strings.Contains(role.Interface, "."):
		return fmt.Errorf("label %s is %q; its value is %s, and has no dots", role.Label, role.Interface, what)
	case role.Client && slices.Contains(notInterfaces, role.Interface):
		return fmt.Errorf("label %s is %q, which the kernel takes for all interfaces; take another name", role.Label, role.Interface)
	}
	return nil
}

// Clashes finds a role whose interface another role or another interface of the pod has, "" if there is none. Taken are the pod's other interfaces,
// by name with what they are.
func Clashes(roles []Role, taken map[string]string) error {
	for i := range roles {
		role := &roles[i]
		for _, name := range sortedKeys(taken) {
			if role.mayBe(name) {
				return fmt.Errorf("label %s gives %s, and the pod has an interface %s already (%s); take another name", role.Label, role.names(), name, taken[name])
			}
		}
		for j := range roles[:i] {
			if other := &roles[j]; role.meets(other) {
				return fmt.Errorf("labels %s and %s give %s and %s, which can be one interface; take names that differ by more than a number",
					other.Label, role.Label, other.names(), role.names())
			}
		}
	}
	return nil
}

// names says what interfaces a role has.
func (r *Role) names() string {
	if r.Client {
		return "interface " + r.Interface
	}
	return "interfaces " + r.Interface + "0, " + r.Interface + "1 and so on"
}

// mayBe tells whether a name can be that of an interface of the role.
func (r *Role) mayBe(name string) bool {
	if r.Client {
		return r.Interface == name
	}
	number, begins := strings.CutPrefix(name, r.Interface)
	return begins && isNumber(number)
}

// meets tells whether two roles can have one interface.
func (r *Role) meets(other *Role) bool {
	switch {
	case r.Client:
		return other.mayBe(r.Interface)
	case other.Client:
		return r.mayBe(other.Interface)
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
