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

// member is a pod with its role in a service.
type member struct {
	pod *Pod
	// clientInterface is the name of its interface as a client, endpointPrefix the prefix of its interfaces as an endpoint; "" if it has not
	// that role.
	clientInterface, endpointPrefix string
	// element is the name of its chain element, "" for none.
	element string
}

// group is a service with its pods.
type group struct {
	service *v1alpha1.TSNService
	clients []*member
	// stages are the pods to which the links of each hop lead: those of each chain element, then the endpoints.
	stages [][]*member
	byUID  []map[string]*member
	// forwards are the forwarding settings of each element.
	forwards [][]string
	findings []Finding
}

// find returns the pod of a hop's stage, nil for none.
func (g *group) find(hop int, uid string) *member { return g.byUID[hop][uid] }

// loopError is returned if a chain would lead through a pod twice.
type loopError struct{ error }

func (e *loopError) Unwrap() error { return e.error }

// podFindings are findings by the pods' UIDs.
type podFindings map[string][]Finding

func (s podFindings) add(pod *Pod, reason, format string, arguments ...any) {
	s[pod.UID] = append(s[pod.UID], Finding{reason, fmt.Sprintf(format, arguments...)})
}

// selection has the parsed selectors of a service.
type selection struct {
	endpoint labels.Selector
	elements []labels.Selector
}

// parseSelectors parses the selectors of a service.
func parseSelectors(service *v1alpha1.TSNService) (*selection, error) {
	parse := func(field string, selector *metav1.LabelSelector) (labels.Selector, error) {
		if selector == nil {
			return nil, nil
		}
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return nil, fmt.Errorf("spec.%s: %w; correct it", field, err)
		}
		return parsed, nil
	}
	var s selection
	var err error
	if s.endpoint, err = parse("endpoint", service.Spec.Endpoint); err != nil {
		return nil, err
	}
	if _, err = parse("clientNamespaces", service.Spec.ClientNamespaces); err != nil {
		return nil, err
	}
	for i := range service.Spec.Chain {
		element := &service.Spec.Chain[i]
		selector, err := parse("chain["+element.Name+"].selector", &element.Selector)
		if err != nil {
			return nil, err
		}
		s.elements = append(s.elements, selector)
	}
	return &s, nil
}

// CheckClient returns an error if pods of a namespace, which has these labels, may not be clients of a service.
func CheckClient(service *v1alpha1.TSNService, namespace string, namespaceLabels map[string]string) error {
	if namespace == service.Namespace {
		return nil
	}
	labelSelector := service.Spec.ClientNamespaces
	if labelSelector == nil {
		return fmt.Errorf("pods of namespace %s may not be clients of TSNService %s/%s: without spec.clientNamespaces only pods of its own namespace may be",
			namespace, service.Namespace, service.Name)
	}
	selector, err := metav1.LabelSelectorAsSelector(labelSelector)
	if err != nil {
		return fmt.Errorf("TSNService %s/%s: spec.clientNamespaces: %w; correct it", service.Namespace, service.Name, err)
	}
	if !selector.Matches(labels.Set(namespaceLabels)) {
		return fmt.Errorf("pods of namespace %s may not be clients of TSNService %s/%s: its spec.clientNamespaces (%s) does not select the namespace",
			namespace, service.Namespace, service.Name, metav1.FormatLabelSelector(labelSelector))
	}
	return nil
}

// ElementOf returns the chain element of a pod that has both labels of a service.
func ElementOf(service *v1alpha1.TSNService, podLabels map[string]string) (string, error) {
	s, err := parseSelectors(service)
	if err != nil {
		return "", fmt.Errorf("TSNService %s/%s: %w", service.Namespace, service.Name, err)
	}
	return s.element(service, podLabels)
}

func (s *selection) element(service *v1alpha1.TSNService, podLabels map[string]string) (string, error) {
	var names []string
	for i, selector := range s.elements {
		if selector.Matches(labels.Set(podLabels)) {
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
	case s.endpoint != nil && s.endpoint.Matches(labels.Set(podLabels)):
		return "", &loopError{fmt.Errorf("the pod is element %s of the chain of TSNService %s/%s and, by spec.endpoint, its endpoint, so that the chain would be a loop; "+
			"have spec.endpoint not select it", names[0], service.Namespace, service.Name)}
	}
	return names[0], nil
}

// groupsOf returns the members of each service, and adds findings about pods with invalid labels.
func groupsOf(in *Input, findings podFindings) map[Key]*group {
	groups := map[Key]*group{}
	selections := map[Key]*selection{}
	for i := range in.Services {
		service := &in.Services[i]
		g := &group{service: service, stages: make([][]*member, len(service.Spec.Chain)+1)}
		for j := range service.Spec.Chain {
			g.forwards = append(g.forwards, service.Spec.Chain[j].Forward)
		}
		parsed, err := parseSelectors(service)
		if err != nil {
			g.findings = append(g.findings, Finding{v1alpha1.ReasonSelectorInvalid, err.Error()})
		}
		groups[keyOf(service)], selections[keyOf(service)] = g, parsed
	}
	for i := range in.Pods {
		pod := &in.Pods[i]
		if pod.Ended {
			continue
		}
		roles, errs := ParseRoles(pod.Labels, pod.Namespace)
		for _, err := range errs {
			findings.add(pod, v1alpha1.ReasonLabelInvalid, "%v", err)
		}
		for key, member := range membersOf(pod, roles) {
			group := groups[key]
			if group == nil {
				findings.add(pod, v1alpha1.ReasonServiceMissing, "there is no TSNService %s; the pod gets its links when it is created", key)
				continue
			}
			if selection := selections[key]; selection != nil {
				group.addMember(member, selection, in.Namespaces[pod.Namespace], findings)
			}
		}
	}
	for _, group := range groups {
		group.sort()
	}
	return groups
}

// membersOf combines the labels for each service.
func membersOf(pod *Pod, roles []Role) map[Key]*member {
	members := map[Key]*member{}
	for _, role := range roles {
		key := Key{Namespace: role.Namespace, Name: role.Service}
		m := members[key]
		if m == nil {
			m = &member{pod: pod}
			members[key] = m
		}
		if role.Client {
			m.clientInterface = role.Interface
		} else {
			m.endpointPrefix = role.Interface
		}
	}
	return members
}

// addMember adds a pod to the clients or to its stage.
func (g *group) addMember(m *member, s *selection, namespace map[string]string, findings podFindings) {
	service := g.service
	switch {
	case m.clientInterface != "" && m.endpointPrefix != "":
		element, err := s.element(service, m.pod.Labels)
		if err != nil {
			reason := v1alpha1.ReasonServiceForbidden
			var loop *loopError
			if errors.As(err, &loop) {
				reason = v1alpha1.ReasonChainLoop
			}
			findings.add(m.pod, reason, "%v", err)
			g.findings = append(g.findings, Finding{reason, fmt.Sprintf("pod %s: %v", m.pod.FullName(), err)})
			return
		}
		m.element = element
		at := slices.IndexFunc(service.Spec.Chain, func(candidate v1alpha1.ChainElement) bool { return candidate.Name == element })
		g.stages[at] = append(g.stages[at], m)
	case m.clientInterface != "":
		if err := CheckClient(service, m.pod.Namespace, namespace); err != nil {
			findings.add(m.pod, v1alpha1.ReasonServiceForbidden, "%v", err)
			return
		}
		g.clients = append(g.clients, m)
	case s.endpoint == nil || s.endpoint.Matches(labels.Set(m.pod.Labels)):
		last := len(g.stages) - 1
		g.stages[last] = append(g.stages[last], m)
	default:
		findings.add(m.pod, v1alpha1.ReasonServiceForbidden, "label %s%s offers TSNService %s/%s, whose spec.endpoint (%s) does not select the pod",
			v1alpha1.EndpointLabelPrefix, service.Name, service.Namespace, service.Name, metav1.FormatLabelSelector(service.Spec.Endpoint))
	}
}

// sort makes the order of pods independent of the input.
func (g *group) sort() {
	for _, pods := range append(slices.Clone(g.stages), g.clients) {
		slices.SortFunc(pods, func(a, b *member) int { return strings.Compare(a.pod.FullName(), b.pod.FullName()) })
	}
	for _, pods := range g.stages {
		byUID := make(map[string]*member, len(pods))
		for _, member := range pods {
			byUID[member.pod.UID] = member
		}
		g.byUID = append(g.byUID, byUID)
	}
}
