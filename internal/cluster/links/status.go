// SPDX-License-Identifier: Apache-2.0

package links

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// servicePlan returns the status and the findings of the service.
func (r *pairing) servicePlan() *ServicePlan {
	last := len(r.stages) - 1
	plan := &ServicePlan{Findings: slices.Clone(r.findings)}
	plan.Status.Endpoints, plan.Status.Clients = int32(len(r.stages[last])), int32(len(r.clients))
	for hop, stage := range r.stages {
		for _, member := range stage {
			if r.isEligible(member) {
				pod := r.servicePod(member, member.endpointPrefix)
				if member.element != "" {
					pod.Onward = member.clientInterface
				}
				pod.Element, pod.Links = member.element, r.load[hop][member.pod.UID]-r.foreign[hop][member.pod.UID]
				plan.Status.Offers = append(plan.Status.Offers, pod)
			}
		}
	}
	for _, path := range r.clientPaths {
		if path.up {
			plan.Status.Linked++
		}
	}
	plan.Status.Offers = limitPods(plan.Status.Offers)
	plan.Status.Wants, plan.Status.Left = r.wants()
	plan.Status.Accepted = r.accepted
	plan.Status.Nodes = r.serviceNodes(&plan.Status)
	plan.Findings = append(plan.Findings, r.clientFindings()...)
	return plan
}

// wants returns the clients that the cluster alone cannot link, those without any link first, and the clients of hub links that do not
// want one any more.
func (r *pairing) wants() (wants []v1alpha1.ServicePod, left []string) {
	var linked []v1alpha1.ServicePod
	wanting := map[string]bool{}
	for _, path := range r.clientPaths {
		node, known := r.in.Nodes[path.from.pod.Node]
		if path.link != nil && r.isOwned(path.link) && path.healthy || path.pending != nil && path.healthy || !known || node.Unfit != "" {
			continue
		}
		pod := r.servicePod(path.from, path.from.clientInterface)
		wanting[pod.UID] = true
		if r.hub[slot{pod.UID, 0}] != nil {
			linked = append(linked, pod)
		} else {
			wants = append(wants, pod)
		}
	}
	for at, link := range r.hub {
		if at.hop == 0 && !wanting[at.uid] && r.isLocalClient(link) {
			left = append(left, at.uid)
		}
	}
	slices.Sort(left)
	wants = slices.Concat(limitPods(wants), limitPods(linked))
	return wants[:min(len(wants), v1alpha1.MaxServicePods)], left[:min(len(left), v1alpha1.MaxServicePods)]
}

// isLocalClient reports whether the client of a hub's link is, or was, a pod of this cluster: its node is local, or no other end is.
func (r *pairing) isLocalClient(link *v1alpha1.TSNLink) bool {
	isLocal := func(end *v1alpha1.LinkEnd) bool {
		node, known := r.in.Nodes[end.Node]
		return r.pods[end.UID] != nil || known && node.Address.String() == end.NodeAddress
	}
	return isLocal(&link.Spec.Client) || !isLocal(&link.Spec.Endpoint)
}

// serviceNodes returns the keys of the nodes of offers and wants, with which a hub encrypts links between clusters.
func (r *pairing) serviceNodes(status *v1alpha1.TSNServiceStatus) []v1alpha1.ServiceNode {
	if !r.service.Spec.Encrypted() {
		return nil
	}
	keys := map[string]*v1alpha1.LinkNodeKeys{}
	for _, pods := range [][]v1alpha1.ServicePod{status.Wants, status.Offers} {
		for i := range pods {
			if known := r.in.Nodes[pods[i].Node].Keys; known != nil {
				keys[pods[i].Node] = known
			}
		}
	}
	var all []v1alpha1.ServiceNode
	for _, name := range sortedKeys(keys) {
		all = append(all, v1alpha1.ServiceNode{Name: name, NodeKeys: *keys[name]})
	}
	return all[:min(len(all), v1alpha1.MaxServiceNodes)]
}

func limitPods(pods []v1alpha1.ServicePod) []v1alpha1.ServicePod {
	slices.SortFunc(pods, func(a, b v1alpha1.ServicePod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod))
	})
	return pods[:min(len(pods), v1alpha1.MaxServicePods)]
}

func (r *pairing) servicePod(m *member, name string) v1alpha1.ServicePod {
	node := r.in.Nodes[m.pod.Node]
	return v1alpha1.ServicePod{Namespace: m.pod.Namespace, Pod: m.pod.Name, UID: m.pod.UID, Node: m.pod.Node,
		NodeAddress: node.Address.String(), Interface: name, MTU: node.MTU}
}

// clientFindings returns why clients have no link, each reason once, or that there is no endpoint.
func (r *pairing) clientFindings() []Finding {
	var all []Finding
	counts := map[string]int{}
	for _, client := range r.clientPaths {
		if client.link != nil || client.finding.Reason == v1alpha1.ReasonNodeWaited || client.finding.Reason == v1alpha1.ReasonOverlaps {
			continue
		}
		if counts[client.finding.Reason]++; counts[client.finding.Reason] == 1 {
			all = append(all, client.finding)
		}
	}
	for i := range all {
		count := counts[all[i].Reason]
		all[i].Text = fmt.Sprintf("%d of %d clients have no link: %s", count, len(r.clients), all[i].Text)
	}
	if len(all) == 0 && len(r.clients) == 0 {
		for hop, stage := range r.stages {
			if !slices.ContainsFunc(stage, r.isEligible) {
				return []Finding{r.noTargetFinding(hop, 0, 0)}
			}
		}
	}
	return all
}

// noTargetFinding returns why no pod of a hop can be linked to.
func (r *pairing) noTargetFinding(hop, ready, full int) Finding {
	role, reason := "is an endpoint", v1alpha1.ReasonNoEndpoint
	if hop < len(r.service.Spec.Chain) {
		role, reason = "is element "+r.service.Spec.Chain[hop].Name+" of the chain", v1alpha1.ReasonNoElement
	}
	switch {
	case ready > 0 && full == ready:
		return Finding{v1alpha1.ReasonLimitReached, fmt.Sprintf("each pod that %s has %d links already (spec.limits.linksPerEndpoint); raise the limit, or start more such pods",
			role, r.limit)}
	case ready > 0:
		return Finding{reason, fmt.Sprintf("no other pod that %s can be linked to now", role)}
	case len(r.stages[hop]) > 0:
		first := r.stages[hop][0]
		return Finding{reason, fmt.Sprintf("no pod that %s can be linked to: of %d none is ready on a node that is (%s: %s)", role, len(r.stages[hop]),
			first.pod.FullName(), r.podFault(first))}
	}
	return Finding{reason, fmt.Sprintf("no pod of namespace %s %s: none has %s", r.key.Namespace, role, r.requiredLabels(hop))}
}

// requiredLabels describes the labels of pods to which links of a hop can lead.
func (r *pairing) requiredLabels(hop int) string {
	endpoint := v1alpha1.EndpointLabelPrefix + r.key.Name
	if hop < len(r.service.Spec.Chain) {
		return "the labels " + v1alpha1.ClientLabelPrefix + r.key.Name + " and " + endpoint + ", and those of its selector"
	}
	if r.service.Spec.Endpoint != nil {
		return "the label " + endpoint + " and those of spec.endpoint"
	}
	return "the label " + endpoint
}

// podFault returns why links cannot lead to a pod, "" if they can.
func (r *pairing) podFault(m *member) string {
	node, known := r.in.Nodes[m.pod.Node]
	switch {
	case m.pod.Node == "":
		return "it has no node yet"
	case m.pod.Deleting:
		return "it is being deleted"
	case !known:
		return "its node " + m.pod.Node + " is gone"
	case node.Unfit != "":
		return node.Unfit
	case !node.Ready:
		return "its node " + m.pod.Node + " is not ready"
	case !m.pod.Ready:
		return "it is not ready"
	}
	return ""
}

// clientFinding returns why a pod cannot get a new link; its reason is empty if it can.
func (r *pairing) clientFinding(from *member) Finding {
	node, known := r.in.Nodes[from.pod.Node]
	switch {
	case r.blocked != nil:
		return *r.blocked
	case from.pod.Node == "":
		return Finding{v1alpha1.ReasonNodeWaited, "the pod has no node yet"}
	case from.pod.Deleting:
		return Finding{v1alpha1.ReasonNodeWaited, "the pod is being deleted"}
	case !known || !node.Ready:
		return Finding{v1alpha1.ReasonNodeWaited, fmt.Sprintf("node %s of the pod is not ready", from.pod.Node)}
	case node.Unfit != "":
		return Finding{v1alpha1.ReasonNodeUnfit, fmt.Sprintf("no link can end on node %s of the pod: %s", from.pod.Node, node.Unfit)}
	}
	return Finding{}
}

// linkFault returns why a link is replaced.
func (r *pairing) linkFault(link *v1alpha1.TSNLink, hop int) string {
	member := r.find(hop, link.Spec.Endpoint.UID)
	if member == nil {
		return "gone"
	}
	if text := r.podFault(member); text != "" {
		return "no endpoint any more: " + text
	}
	if down, ok := downFor(link, r.in.Now); ok && down >= LinkTimeout {
		return fmt.Sprintf("not reached (for %v)", down.Round(1e9))
	}
	return "cut off from the rest of the chain"
}

// removalReason returns why an existing link is not needed.
func (r *pairing) removalReason(at slot, link *v1alpha1.TSNLink) string {
	client := link.Spec.Client.Namespace + "/" + link.Spec.Client.Pod
	pod := r.pods[at.uid]
	switch {
	case pod == nil:
		return fmt.Sprintf("pod %s is gone", client)
	case pod.Ended:
		return fmt.Sprintf("the containers of pod %s have ended", client)
	case at.hop >= len(r.stages):
		return "the chain has become shorter"
	case r.hub[at] != nil:
		return fmt.Sprintf("pod %s has a link to another cluster instead", client)
	case r.pods[link.Spec.Endpoint.UID] != nil && r.find(at.hop, link.Spec.Endpoint.UID) == nil:
		return fmt.Sprintf("pod %s/%s does not offer TSNService %s any more", link.Spec.Endpoint.Namespace, link.Spec.Endpoint.Pod, r.key)
	case at.hop > 0:
		return "no client's way leads over it"
	}
	return fmt.Sprintf("pod %s is no client of TSNService %s any more", client, r.key)
}
