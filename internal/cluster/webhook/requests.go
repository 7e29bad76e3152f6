// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// podAnnotations are the annotations of pods that begin with annotationPrefix.
var podAnnotations = []string{
	v1alpha1.NetworkAnnotation, v1alpha1.AddressesAnnotation, v1alpha1.ContainersAnnotation, v1alpha1.UnseenAnnotation, v1alpha1.OffNetworkAnnotation, v1alpha1.ReceiveAnnotation,
	v1alpha1.DeviceAnnotation, v1alpha1.DeviceQueuesAnnotation, v1alpha1.DeviceClassAnnotation, v1alpha1.DeviceOwnerAnnotation, v1alpha1.LinkRoutesAnnotation, v1alpha1.RuntimeAnnotation,
}

const (
	annotationPrefix = "kubernetsn.io/"
	// maxTypos is the maximum edit distance between an unknown annotation and the one that the warning suggests.
	maxTypos = 3
	// maxKeyBytes limits the keys that are compared; the known ones are shorter.
	maxKeyBytes = 63
)

// unknownAnnotations warns about annotations that nothing reads, with the most similar known one.
func unknownAnnotations(pod *corev1.Pod) (warnings []string) {
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if !strings.HasPrefix(key, annotationPrefix) || slices.Contains(podAnnotations, key) {
			continue
		}
		key = tsnnetwork.Shorten(key, maxKeyBytes)
		nearest := slices.MinFunc(podAnnotations, func(a, b string) int { return editDistance(key, a) - editDistance(key, b) })
		suggestion := "remove it; docs/guide/networks.md lists the annotations of pods"
		if editDistance(key, nearest) <= maxTypos {
			suggestion = "did you mean " + nearest + "?"
		}
		warnings = append(warnings, fmt.Sprintf("annotation %s of the pod is unknown and has no effect; %s", key, suggestion))
	}
	return warnings
}

// editDistance returns how many bytes of a must be inserted, removed or replaced to get b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // distances between the bytes of a so far and each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// checkReady refuses pods of a network whose range or VNI is in use, and warns about other reasons for which the pod may wait. A node that has
// not reported yet is usual after a pod's creation.
func checkReady(network *v1alpha1.TSNNetwork) (warning string, err error) {
	ready := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.Status != metav1.ConditionFalse || ready.ObservedGeneration != network.Generation || ready.Reason == v1alpha1.ReasonNodeWaited:
		return "", nil
	case ready.Reason == v1alpha1.ReasonOverlaps:
		return "", refusal{fmt.Errorf("TSNNetwork %s accepts no pods (%s): %s", network.Name, ready.Reason, ready.Message)}
	}
	return fmt.Sprintf("TSNNetwork %s is not ready, and the pod may wait (%s): %s", network.Name, ready.Reason, ready.Message), nil
}

// checkPlace returns an error if a pod selects nodes for which there is no KuberneTSN, or has an invalid annotation about its runtime.
func checkPlace(pod *corev1.Pod) error {
	if value, given := pod.Annotations[v1alpha1.RuntimeAnnotation]; given && value != v1alpha1.RuntimeUnchecked {
		return fmt.Errorf("annotation %s is %q; write %s, or leave the annotation out", v1alpha1.RuntimeAnnotation, value, v1alpha1.RuntimeUnchecked)
	}
	if selected, given := pod.Spec.NodeSelector[corev1.LabelArchStable]; given && selected != architecture {
		return fmt.Errorf("the pod has the nodeSelector %s: %s, and networks and links need nodes with %s, because all images of KuberneTSN are for it; select these",
			corev1.LabelArchStable, selected, architecture)
	}
	return nil
}

// architecture is the value of the label kubernetes.io/arch of the nodes on which KuberneTSN runs.
const architecture = "amd64"

// selectArchitecture keeps a pod on nodes with KuberneTSN. A pod that has a node is not changed: kubelet would reject it if the node had no such
// label.
func selectArchitecture(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		return
	}
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	pod.Spec.NodeSelector[corev1.LabelArchStable] = architecture
}

// isGVisor reports whether a RuntimeClass or its handler has a name of gVisor's runtime.
func isGVisor(name string) bool {
	return name == "gvisor" || name == "runsc" || strings.HasPrefix(name, "runsc-")
}

// errGVisor refuses a pod with gVisor's runtime.
func errGVisor(what, name string) error {
	return refusal{fmt.Errorf("%s %s of the pod is gVisor's, whose sandbox has a network stack of its own: programs in it reach neither ktsnd nor the transmit times of "+
		"their messages; remove runtimeClassName. If it is another runtime, annotate the pod with %s: %s", what, name, v1alpha1.RuntimeAnnotation, v1alpha1.RuntimeUnchecked)}
}

// maxAddresses is the number of addresses that a pod can request on a network: one of each family.
const maxAddresses = 2

// requestAddresses adds the addresses in the pod's annotation to the attachments of the networks that have them. The pod is attached already.
func requestAddresses(pod *corev1.Pod, namespace string, networks []*v1alpha1.TSNNetwork) error {
	value, given := pod.Annotations[v1alpha1.AddressesAnnotation]
	if !given {
		return nil
	}
	if count := 1 + strings.Count(value, ","); count > maxAddresses*len(networks) {
		return fmt.Errorf("annotation %s has %d addresses; a pod has at most one of each family on each of its networks", v1alpha1.AddressesAnnotation, count)
	}
	for word := range strings.SplitSeq(value, ",") {
		text := strings.TrimSpace(word)
		address, err := parseAddress(text)
		at := slices.IndexFunc(networks, func(network *v1alpha1.TSNNetwork) bool {
			return tsnnetwork.Contains(tsnnetwork.Ranges(network), address)
		})
		if err != nil || at < 0 {
			return fmt.Errorf("annotation %s: %q is no address of the pod's networks; give comma-separated addresses of their ranges, such as 10.70.255.7",
				v1alpha1.AddressesAnnotation, tsnnetwork.Shorten(text, maxKeyBytes))
		}
		elements, err := attachmentsOf(pod, namespace)
		if err != nil {
			return err
		}
		position := slices.IndexFunc(elements, func(element *nettypes.NetworkSelectionElement) bool {
			return element.Name == networks[at].Name && element.Namespace == namespace
		})
		requested := elements[position].IPRequest
		if slices.ContainsFunc(requested, func(existing string) bool { return isOf(existing, text) }) {
			continue // the webhook is called a second time
		}
		if err := setAddresses(pod, elements, position, append(requested, text)); err != nil {
			return err
		}
	}
	return nil
}

// isOf reports whether a requested address is that of a text, or was picked from the range in it.
func isOf(requested, text string) bool {
	address, err := parseAddress(requested)
	within, errPrefix := netip.ParsePrefix(text)
	if errPrefix == nil && within == within.Masked() {
		return err == nil && within.Contains(address)
	}
	other, errOther := parseAddress(text)
	return err == nil && errOther == nil && address == other
}

// setAddresses sets the requested addresses of an attachment.
func setAddresses(pod *corev1.Pod, elements []*nettypes.NetworkSelectionElement, position int, ips []string) error {
	text, err := changeAttachment(pod.Annotations[nettypes.NetworkAttachmentAnnot], elements, position, func(element map[string]any) { element["ips"] = ips })
	if err == nil {
		pod.Annotations[nettypes.NetworkAttachmentAnnot] = text
	}
	return err
}

// checkRequests returns an error if a pod requests addresses of its networks (ips and mac in the annotation of Multus) that it cannot have.
func (h *Handler) checkRequests(ctx context.Context, pod *corev1.Pod, namespace string, networks []*v1alpha1.TSNNetwork) error {
	elements, err := attachmentsOf(pod, namespace)
	if err != nil {
		return refusal{err}
	}
	for position, element := range elements {
		at := slices.IndexFunc(networks, func(network *v1alpha1.TSNNetwork) bool {
			return network.Name == element.Name && element.Namespace == namespace
		})
		if at < 0 {
			continue
		}
		if count := len(element.IPRequest); count > maxAddresses {
			return refusal{fmt.Errorf("annotation %s requests %d addresses on TSNNetwork %s; a pod has at most one of each family", nettypes.NetworkAttachmentAnnot, count,
				element.Name)}
		}
		if element.IPRequest, err = pickAddresses(pod, networks[at], elements, position); err != nil {
			return refusal{err}
		}
		var requested []netip.Addr
		for _, text := range element.IPRequest {
			address, err := h.checkAddress(ctx, pod, namespace, networks[at], text)
			if err != nil {
				return err
			}
			requested = append(requested, address)
		}
		if err := checkFamilies(networks[at], requested); err != nil {
			return refusal{err}
		}
		if err := h.checkReserved(ctx, namespace, networks[at], element.IPAMClaimReference, requested); err != nil {
			return err
		}
		if element.MacRequest != "" {
			if err := h.checkMAC(ctx, pod, namespace, networks[at], element.MacRequest, requested); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	// podIndexLabel is the number of a pod in its StatefulSet.
	podIndexLabel = "apps.kubernetes.io/pod-index"
	// maxPodIndex bounds the search in a range: whoever creates a pod sets its labels.
	maxPodIndex = 1 << 16
)

// pickAddresses replaces each range of static addresses, such as 10.70.255.16/28, by the address in it that has the pod's number in its
// StatefulSet, whose pods have one template. It returns the requested addresses.
func pickAddresses(pod *corev1.Pod, network *v1alpha1.TSNNetwork, elements []*nettypes.NetworkSelectionElement, position int) ([]string, error) {
	picked := slices.Clone(elements[position].IPRequest)
	for i, text := range picked {
		within, err := netip.ParsePrefix(text)
		if err != nil || within.IsSingleIP() || within != within.Masked() || !tsnnetwork.Contains(tsnnetwork.Static(network), within.Addr()) {
			continue
		}
		number, err := strconv.Atoi(pod.Labels[podIndexLabel])
		if err != nil || number < 0 || number > maxPodIndex {
			return nil, fmt.Errorf("annotation %s requests an address of %s on TSNNetwork %s, and the pod is of no StatefulSet (label %s); request an address such as %s",
				nettypes.NetworkAttachmentAnnot, within, network.Name, podIndexLabel, within.Addr())
		}
		address := within.Addr()
		for range number {
			if address = address.Next(); !within.Contains(address) {
				return nil, fmt.Errorf("annotation %s requests an address of %s on TSNNetwork %s, which has none for the pod with the number %d in its StatefulSet; "+
					"request a larger range", nettypes.NetworkAttachmentAnnot, within, network.Name, number)
			}
		}
		picked[i] = netip.PrefixFrom(address, address.BitLen()).String()
	}
	if slices.Equal(picked, elements[position].IPRequest) {
		return picked, nil
	}
	return picked, setAddresses(pod, elements, position, picked)
}

// checkFamilies returns an error for two addresses of a family of which one is static: a pod has one of each.
func checkFamilies(network *v1alpha1.TSNNetwork, requested []netip.Addr) error {
	for _, address := range requested {
		if !tsnnetwork.Contains(tsnnetwork.Static(network), address) {
			continue
		}
		for _, other := range requested {
			if other != address && other.Is4() == address.Is4() {
				return fmt.Errorf("annotation %s requests %s and %s on TSNNetwork %s; a pod has one static address of a family, and no other of it: leave one out",
					nettypes.NetworkAttachmentAnnot, address, other, network.Name)
			}
		}
	}
	return nil
}

// parseAddress parses a requested address, which may have a prefix length.
func parseAddress(text string) (netip.Addr, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Addr(), nil
	}
	return netip.ParseAddr(text)
}

// checkAddress returns an error for an address that is not of the network, of the subnet of another node than the one that the pod selects, or
// static and another pod's. Two pods that are created at once are not compared: the operator gives the address to one of them.
func (h *Handler) checkAddress(ctx context.Context, pod *corev1.Pod, namespace string, network *v1alpha1.TSNNetwork, text string) (netip.Addr, error) {
	address, err := parseAddress(text)
	refuse := func(format string, arguments ...any) (netip.Addr, error) {
		return netip.Addr{}, refusal{fmt.Errorf("annotation %s requests the address %q on TSNNetwork %s, "+format,
			append([]any{nettypes.NetworkAttachmentAnnot, tsnnetwork.Shorten(text, maxKeyBytes), network.Name}, arguments...)...)}
	}
	if err != nil {
		return refuse("which is no IP address; give one such as 10.70.1.77/16")
	}
	ranges := tsnnetwork.Ranges(network)
	if !tsnnetwork.Contains(ranges, address) {
		return refuse("which is not in its ranges, %v", ranges)
	}
	static := tsnnetwork.Contains(tsnnetwork.Static(network), address)
	if static {
		owner, err := h.otherPod(ctx, pod, namespace, func(other *corev1.Pod) bool {
			return slices.Contains(RequestedAddresses(other, network.Name), address)
		})
		if err != nil {
			return address, err
		}
		if owner != "" {
			return refuse("which pod %s has; request another one, or wait until that pod is gone", owner)
		}
	}
	node, err := h.selectedNode(ctx, pod)
	if err != nil || node == "" && !static {
		return address, err
	}
	var nodes v1alpha1.TSNNodeList
	if err := h.Cached.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return address, fmt.Errorf("list the TSNNodes: %w", err)
	}
	for i := range nodes.Items {
		owner := nodes.Items[i].Name
		switch has := hasAddress(&nodes.Items[i], network.Name, address); {
		case has && static:
			return refuse("which is in the subnet of node %s as long as pods of the network are there; request another one", owner)
		case has && owner != node:
			return refuse("which belongs to node %s, and the pod is for node %s; request one of the subnet of %s, or select %s", owner, node, node, owner)
		}
	}
	return address, nil
}

// hasAddress reports whether an address is in a node's subnets of a network.
func hasAddress(node *v1alpha1.TSNNode, network string, address netip.Addr) bool {
	return slices.ContainsFunc(node.Spec.Networks, func(subnets v1alpha1.NodeNetwork) bool {
		return subnets.Name == network && slices.ContainsFunc([]string{subnets.IPv4, subnets.IPv6}, func(text string) bool {
			prefix, err := netip.ParsePrefix(text)
			return err == nil && prefix.Contains(address)
		})
	})
}

// selectedNode returns the node that a pod has or selects by the label of its name, "" if the scheduler may choose.
func (h *Handler) selectedNode(ctx context.Context, pod *corev1.Pod) (string, error) {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, nil
	}
	name := pod.Spec.NodeSelector[corev1.LabelHostname]
	if name == "" {
		return "", nil
	}
	err := h.get(ctx, types.NamespacedName{Name: name}, &corev1.Node{}) // the label may differ from the name
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return name, err
}

// derivedMAC are the first bytes of hardware addresses that tsn-cni derives from an IPv4 address, which follows.
var derivedMAC = []byte{0x0a, 0x58}

// checkMAC returns an error for a hardware address that no interface can have, or that another pod of the network has, until it ends. Two pods
// that are created at once are not compared.
func (h *Handler) checkMAC(ctx context.Context, pod *corev1.Pod, namespace string, network *v1alpha1.TSNNetwork, text string, requested []netip.Addr) error {
	refuse := func(format string, arguments ...any) error {
		return refusal{fmt.Errorf("annotation %s requests the hardware address %q on TSNNetwork %s, "+format,
			append([]any{nettypes.NetworkAttachmentAnnot, tsnnetwork.Shorten(text, maxKeyBytes), network.Name}, arguments...)...)}
	}
	mac, err := net.ParseMAC(text)
	switch {
	case err != nil || len(mac) != 6:
		return refuse("which is none; give one such as 02:00:00:00:00:01")
	case mac[0]&1 != 0:
		return refuse("which is a multicast address; give one whose first byte is even")
	case mac.String() == "00:00:00:00:00:00":
		return refuse("which no interface can have")
	}
	if slices.Equal(mac[:2], derivedMAC) {
		derivedFrom := netip.AddrFrom4([4]byte(mac[2:]))
		inRange := slices.ContainsFunc(tsnnetwork.Ranges(network), func(prefix netip.Prefix) bool { return prefix.Contains(derivedFrom) })
		if inRange && !slices.Contains(requested, derivedFrom) {
			return refuse("which is the one of the pod with %s; request that address (ips), or give another one", derivedFrom)
		}
	}
	owner, err := h.otherPod(ctx, pod, namespace, func(other *corev1.Pod) bool { return requestsMAC(other, network.Name, mac) })
	if err != nil || owner == "" {
		return err
	}
	return refuse("which pod %s has; give another one", owner)
}

// otherPod returns the name of another pod that has not ended and matches, "" for none. An older pod of the same name counts as the same.
func (h *Handler) otherPod(ctx context.Context, pod *corev1.Pod, namespace string, matches func(*corev1.Pod) bool) (name string, err error) {
	var pods corev1.PodList
	if err := h.Cached.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list the pods: %w", err)
	}
	for i := range pods.Items {
		other := &pods.Items[i]
		same := other.Namespace == namespace && other.Name == pod.Name && pod.Name != ""
		if !same && !podstatus.Ended(other) && matches(other) {
			return other.Namespace + "/" + other.Name, nil
		}
	}
	return "", nil
}

// RequestsAddresses reports whether a pod requests addresses or hardware addresses.
func RequestsAddresses(pod *corev1.Pod) bool {
	elements, err := attachmentsOf(pod, pod.Namespace)
	return err == nil && slices.ContainsFunc(elements, func(element *nettypes.NetworkSelectionElement) bool {
		return element.MacRequest != "" || len(element.IPRequest) > 0
	})
}

// RequestedAddresses returns the addresses that a pod requests on a network, at most maxAddresses. It is none if the pod is not on the network: pods
// of all namespaces may have any annotation of Multus, and change it after their creation.
func RequestedAddresses(pod *corev1.Pod, network string) (requested []netip.Addr) {
	elements, err := attachmentsOf(pod, pod.Namespace)
	if err != nil || !isOn(pod, network) {
		return nil
	}
	for _, element := range elements {
		if element.Name != network || element.Namespace != pod.Namespace {
			continue
		}
		for _, text := range element.IPRequest {
			if address, err := parseAddress(text); err == nil {
				requested = append(requested, address)
			}
		}
	}
	return requested[:min(len(requested), maxAddresses)]
}

// isOn reports whether a pod's annotation names a network. It was admitted with it, and cannot change it.
func isOn(pod *corev1.Pod, network string) bool {
	networks, err := tsnnetwork.NetworksOf(pod.Annotations[v1alpha1.NetworkAnnotation])
	return err == nil && slices.Contains(networks, network)
}

// requestsMAC reports whether a pod requests a hardware address on a network.
func requestsMAC(pod *corev1.Pod, network string, mac net.HardwareAddr) bool {
	elements, err := attachmentsOf(pod, pod.Namespace)
	return err == nil && isOn(pod, network) && slices.ContainsFunc(elements, func(element *nettypes.NetworkSelectionElement) bool {
		if element.Name != network || element.Namespace != pod.Namespace || element.MacRequest == "" {
			return false
		}
		other, err := net.ParseMAC(element.MacRequest)
		return err == nil && slices.Equal(other, mac)
	})
}
