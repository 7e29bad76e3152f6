// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// member is a pod in a role.
type member struct {
	pod *Pod
	// wants is the name of its interface as a client; offers what those begin with to which others are linked.
	wants, offers string
	// element is the name of the element of the chain that it is, "" for none.
	element string
}

// group is a service with its pods.
type group struct {
	service *v1alpha1.TSNService
	clients []*member
	// stages are the pods to which links lead, hop by hop: those of each element of the chain, and at last the endpoints.
	stages [][]*member
	byUID  []map[string]*member
	// forwards says of each element what its kernel forwards.
	forwards [][]string
	found    []Finding
}

// find finds a pod among those to which links of a hop lead.
func (g *group) find(hop int, uid string) *member { return g.byUID[hop][uid] }

// loopError says that a chain would lead back to a pod.
type loopError struct{ error }

func (e *loopError) Unwrap() error { return e.error }

// said is what pods are told.
type said map[string][]Finding

func (s said) add(pod *Pod, reason, format string, arguments ...any) {
	s[pod.UID] = append(s[pod.UID], Finding{reason, fmt.Sprintf(format, arguments...)})
}

// selection is what of a service's spec has to be parsed, once.
type selection struct {
	endpoint, namespaces labels.Selector
	elements             []labels.Selector
}

// Selectors reads those of a service.
func selectorsOf(service *v1alpha1.TSNService) (*selection, error) {
	read := func(field string, selector *metav1.LabelSelector) (labels.Selector, error) {
		if selector == nil {
			return nil, nil
		}
		createdSelector, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return nil, fmt.Errorf("spec.%s: %w; correct it", field, err)
		}
		return createdSelector, nil
	}
	var s selection
	var err error
	if s.endpoint, err = read("endpoint", service.Spec.Endpoint); err != nil {
		return nil, err
	}
	if s.namespaces, err = read("clientNamespaces", service.Spec.ClientNamespaces); err != nil {
		return nil, err
	}
	for i := range service.Spec.Chain {
		element := &service.Spec.Chain[i]
		selector, err := read("chain["+element.Name+"].selector", &element.Selector)
		if err != nil {
			return nil, err
		}
		s.elements = append(s.elements, selector)
	}
	return &s, nil
}

// MayBeClient says why pods of a namespace, which has these labels, may not be clients of a service.
func MayBeClient(service *v1alpha1.TSNService, namespace string, owner map[string]string) error {
	if namespace == service.Namespace {
		return nil
	}
	given := service.Spec.ClientNamespaces
	if given == nil {
		return fmt.Errorf("pods of namespace %s may not be clients of TSNService %s/%s: it has no spec.clientNamespaces, so that those of its own namespace may only",
			namespace, service.Namespace, service.Name)
	}
	selector, err := metav1.LabelSelectorAsSelector(given)
	if err != nil {
		return fmt.Errorf("TSNService %s/%s: spec.clientNamespaces: %w; correct it", service.Namespace, service.Name, err)
	}
	if !selector.Matches(labels.Set(owner)) {
		return fmt.Errorf("pods of namespace %s may not be clients of TSNService %s/%s: its spec.clientNamespaces (%s) does not select the namespace",
			namespace, service.Namespace, service.Name, metav1.FormatLabelSelector(given))
	}
	return nil
}

// ElementOf names the element of the service's chain that a pod with both labels is.
func ElementOf(service *v1alpha1.TSNService, owner map[string]string) (string, error) {
	s, err := selectorsOf(service)
	if err != nil {
		return "", fmt.Errorf("TSNService %s/%s: %w", service.Namespace, service.Name, err)
	}
	return s.element(service, owner)
}

func (s *selection) element(service *v1alpha1.TSNService, owner map[string]string) (string, error) {
	var names []string
	for i, selector := range s.elements {
		if selector.Matches(labels.Set(owner)) {
			names = append(names, service.Spec.Chain[i].Name)
		}
	}
	switch {
	case len(names) == 0 && len(s.elements) == 0:
		return "", fmt.Errorf("the pod has the labels %s%s and %s%s, as one in the middle of a chain, and TSNService %s/%s has no spec.chain; remove one of the two labels",
			v1alpha1.ClientLabelPrefix, service.Name, v1alpha1.EndpointLabelPrefix, service.Name, service.Namespace, service.Name)
	case len(names) == 0:
		return "", fmt.Errorf("the pod has the labels %s%s and %s%s, as one in the middle of a chain, and no element of spec.chain of TSNService %s/%s selects it; "+
			"remove one of the two labels, or give the pod those of an element", v1alpha1.ClientLabelPrefix, service.Name,
			v1alpha1.EndpointLabelPrefix, service.Name, service.Namespace, service.Name)
	case len(names) > 1:
		return "", &loopError{fmt.Errorf("the pod is selected by several elements of spec.chain of TSNService %s/%s (%s), so that the chain would lead through it twice; let one select it",
			service.Namespace, service.Name, strings.Join(names, ", "))}
	case s.endpoint != nil && s.endpoint.Matches(labels.Set(owner)):
		return "", &loopError{fmt.Errorf("the pod is element %s of the chain of TSNService %s/%s and, by spec.endpoint, its endpoint, so that the chain would be a loop; "+
			"have spec.endpoint not select it", names[0], service.Namespace, service.Name)}
	}
	return names[0], nil
}

// groupsOf finds the pods of each service. Pods whose labels ask for what cannot be are told so.
func groupsOf(in *Input, tell said) map[Key]*group {
	groups := map[Key]*group{}
	selections := map[Key]*selection{}
	for i := range in.Services {
		service := &in.Services[i]
		createdGroup := &group{service: service, stages: make([][]*member, len(service.Spec.Chain)+1)}
		for j := range service.Spec.Chain {
			createdGroup.forwards = append(createdGroup.forwards, service.Spec.Chain[j].Forward)
		}
		parsed, err := selectorsOf(service)
		if err != nil {
			createdGroup.found = append(createdGroup.found, Finding{v1alpha1.ReasonSelectorInvalid, err.Error()})
		}
		groups[keyOf(service)], selections[keyOf(service)] = createdGroup, parsed
	}
	for i := range in.Pods {
		pod := &in.Pods[i]
		if pod.Ended {
			continue
		}
		roles, wrong := RolesOf(pod.Labels, pod.Namespace)
		for _, err := range wrong {
			tell.add(pod, v1alpha1.ReasonLabelInvalid, "%v", err)
		}
		for key, member := range membersOf(pod, roles) {
			group := groups[key]
			if group == nil {
				tell.add(pod, v1alpha1.ReasonServiceMissing, "there is no TSNService %s; the pod gets its links once somebody makes it", key)
				continue
			}
			if selection := selections[key]; selection != nil {
				group.enter(member, selection, in.Namespaces[pod.Namespace], tell)
			}
		}
	}
	for _, group := range groups {
		group.sort()
	}
	return groups
}

// membersOf joins the labels of one service.
func membersOf(pod *Pod, roles []Role) map[Key]*member {
	members := map[Key]*member{}
	for _, role := range roles {
		key := Key{role.Namespace, role.Service}
		m := members[key]
		if m == nil {
			m = &member{pod: pod}
			members[key] = m
		}
		if role.Client {
			m.wants = role.Interface
		} else {
			m.offers = role.Interface
		}
	}
	return members
}

// enter puts a pod where it belongs.
func (g *group) enter(m *member, s *selection, namespace map[string]string, tell said) {
	service := g.service
	switch {
	case m.wants != "" && m.offers != "":
		element, err := s.element(service, m.pod.Labels)
		if err != nil {
			reason := v1alpha1.ReasonServiceForbidden
			var loop *loopError
			if errors.As(err, &loop) {
				reason = v1alpha1.ReasonChainLoop
			}
			tell.add(m.pod, reason, "%v", err)
			g.found = append(g.found, Finding{reason, fmt.Sprintf("pod %s: %v", m.pod.Full(), err)})
			return
		}
		m.element = element
		at := slices.IndexFunc(service.Spec.Chain, func(currentElement v1alpha1.ChainElement) bool { return currentElement.Name == element })
		g.stages[at] = append(g.stages[at], m)
	case m.wants != "":
		if err := MayBeClient(service, m.pod.Namespace, namespace); err != nil {
			tell.add(m.pod, v1alpha1.ReasonServiceForbidden, "%v", err)
			return
		}
		g.clients = append(g.clients, m)
	case s.endpoint == nil || s.endpoint.Matches(labels.Set(m.pod.Labels)):
		last := len(g.stages) - 1
		g.stages[last] = append(g.stages[last], m)
	default:
		tell.add(m.pod, v1alpha1.ReasonServiceForbidden, "label %s%s offers TSNService %s/%s, whose spec.endpoint (%s) does not select the pod",
			v1alpha1.EndpointLabelPrefix, service.Name, service.Namespace, service.Name, metav1.FormatLabelSelector(service.Spec.Endpoint))
	}
}

// sort puts pods into an order that does not depend on that of the input.
func (g *group) sort() {
	for _, pods := range append(slices.Clone(g.stages), g.clients) {
		slices.SortFunc(pods, func(a, b *member) int { return strings.Compare(a.pod.Full(), b.pod.Full()) })
	}
	for _, pods := range g.stages {
		byUID := make(map[string]*member, len(pods))
		for _, member := range pods {
			byUID[member.pod.UID] = member
		}
		g.byUID = append(g.byUID, byUID)
	}
}
