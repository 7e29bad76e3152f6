// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Multus' annotations: what a pod is to be attached to, and what came of it.
const (
	attachedTo     = "k8s.v1.cni.cncf.io/networks"
	attachedStatus = podstatus.MultusAnnotation
)

const makeAnew = "delete the pod, so that its controller recreates it"

// uidForm is that of the UIDs that the API server gives.
var uidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// find reads a pod by its name or, if there is none, by its UID, which ktsnd and kubelet print.
func (d *Doctor) find(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	var pod corev1.Pod
	err := d.Cluster.Get(ctx, clusterreader.Pods, namespace, name, &pod)
	if err == nil {
		return &pod, nil
	}
	if !apierrors.IsNotFound(err) || !uidForm.MatchString(name) {
		return nil, fmt.Errorf("look at pod %s/%s: %s", namespace, name, oneLine(err))
	}
	all, err := clusterreader.List[corev1.Pod](ctx, d.Cluster, clusterreader.Pods, metav1.NamespaceAll, "", "")
	if err != nil {
		return nil, fmt.Errorf("look for the pod of UID %s: %s", name, oneLine(err))
	}
	for i := range all {
		if string(all[i].UID) == name {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("no pod has the UID %s; it may be gone", name)
}

// CheckPod checks a pod, in the order in which it is attached to its networks. A UID can be given instead of its name, for a pod of any
// namespace.
func (d *Doctor) CheckPod(ctx context.Context, namespace, name string) ([]Finding, error) {
	pod, err := d.find(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	names := d.annotation(pod)
	if names == nil {
		return d.take(), nil
	}
	networks := d.networksOf(ctx, pod, names)
	d.kata(ctx, pod)
	d.mutatedByWebhook(pod, names)
	for _, network := range names {
		d.attachment(ctx, pod.Namespace, network)
	}
	d.scheduled(pod)
	if pod.Spec.NodeName != "" {
		d.node(ctx, pod.Spec.NodeName)
		if state := d.state(ctx, pod.Spec.NodeName); state != nil {
			for i := range networks {
				d.networkOnNode(networks[i].Name, state)
				d.clockOnNode(&networks[i], state)
			}
		}
		d.attached(pod, names)
		d.running(pod)
		if pod.Annotations[v1alpha1.DeviceAnnotation] == v1alpha1.DeviceVFIO {
			d.cards(ctx, pod, names) // of which ktsnd knows nothing
		} else {
			d.inKtsnd(ctx, pod, networks)
			d.pastLibrary(ctx, pod)
			d.guest(ctx, pod, names)
		}
	}
	d.events(ctx, pod)
	return d.take(), nil
}

func (d *Doctor) annotation(pod *corev1.Pod) []string {
	value, there := pod.Annotations[v1alpha1.NetworkAnnotation]
	if !there {
		d.report(Bad, "annotation", "add it to the template of what makes the pod, such as "+v1alpha1.NetworkAnnotation+": NAME; `kubectl get tsnnetworks` lists the names",
			"the pod has no annotation %s, and so is on no network", v1alpha1.NetworkAnnotation)
		return nil
	}
	names, err := tsnnetwork.NetworksOf(value)
	if err != nil {
		d.report(Bad, "annotation", "correct it in the template of what makes the pod", "%s", err.Error())
		return nil
	}
	d.ok("annotation", "asks for network %s", strings.Join(names, ", "))
	return names
}

// networksOf checks the networks, and returns those that exist.
func (d *Doctor) networksOf(ctx context.Context, pod *corev1.Pod, names []string) []v1alpha1.TSNNetwork {
	var there []v1alpha1.TSNNetwork
	for _, name := range names {
		about := "network " + name
		var network v1alpha1.TSNNetwork
		err := d.Cluster.Get(ctx, clusterreader.Networks, "", name, &network)
		switch {
		case apierrors.IsNotFound(err):
			d.report(Bad, about, "make it, or correct the annotation; `kubectl get tsnnetworks` lists those that there are",
				"there is no TSNNetwork %s", name)
			continue
		case err != nil:
			d.unreadable(about, err)
			continue
		}
		d.conditions(about, &network)
		d.allowed(ctx, about, &network, pod.Namespace)
		there = append(there, network)
	}
	return there
}

// conditions reports the operator's conditions of a network.
func (d *Doctor) conditions(about string, network *v1alpha1.TSNNetwork) {
	ready := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionReady)
	degraded := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionDegraded)
	switch {
	case ready == nil:
		d.report(Bad, about, "`ktsn doctor` without a name looks at the operator", "the operator has not checked it yet")
	case ready.Status != metav1.ConditionTrue && ready.Reason == v1alpha1.ReasonNodeWaited:
		d.report(Note, about, "wait a moment", "%s", ready.Message)
	case ready.Status != metav1.ConditionTrue:
		d.report(Bad, about, mendOf(ready.Reason), "%s: %s", ready.Reason, ready.Message)
	case degraded != nil && degraded.Status == metav1.ConditionTrue:
		d.report(Note, about, mendOf(degraded.Reason), "%s: %s", degraded.Reason, degraded.Message)
	default:
		d.ok(about, "is ready on %s nodes", network.Status.NodesReady)
	}
	d.clocks(about, network)
}

// clocks reports states of the nodes' clocks that are not faults of the network yet.
func (d *Doctor) clocks(about string, network *v1alpha1.TSNNetwork) {
	condition := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.ConditionClockSynchronized)
	if network.Spec.Clock == nil || condition == nil || !meta.IsStatusConditionTrue(network.Status.Conditions, v1alpha1.ConditionReady) {
		return // what keeps it from being ready says more
	}
	switch {
	case condition.Reason == v1alpha1.ReasonClockHoldover:
		d.report(Note, about, mendOf(condition.Reason), "%s: %s", condition.Reason, condition.Message)
	case condition.Status == metav1.ConditionUnknown:
		d.report(Note, about, "wait a moment", "%s", condition.Message)
	}
}

// mendOf returns the remedy for conditions whose message has none.
func mendOf(reason string) string {
	switch reason {
	case v1alpha1.ReasonNodeNotReady, v1alpha1.ReasonNodeSilent:
		return "`ktsn doctor --node NAME` checks the node"
	case v1alpha1.ReasonMultusMissing:
		return "install Multus"
	case v1alpha1.ReasonClockUnsynchronized, v1alpha1.ReasonClockUnknown, v1alpha1.ReasonClockHoldover, v1alpha1.ReasonTwoClockMasters,
		v1alpha1.ReasonClockAwaited:
		return "`ktsn clock` shows the clocks of all nodes; docs/guide/clocks.md says how they are kept"
	case v1alpha1.ReasonScheduleInvalid:
		return "correct spec.schedule; what was in force stays in force"
	}
	return ""
}

func (d *Doctor) allowed(ctx context.Context, about string, network *v1alpha1.TSNNetwork, namespace string) {
	if network.Spec.NamespaceSelector == nil {
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(network.Spec.NamespaceSelector)
	if err != nil {
		d.report(Bad, about, "correct it", "spec.namespaceSelector: %s", err.Error())
		return
	}
	var object corev1.Namespace
	if err := d.Cluster.Get(ctx, clusterreader.Namespaces, "", namespace, &object); err != nil {
		d.unreadable("namespace "+namespace, err)
		return
	}
	if !selector.Matches(labels.Set(object.Labels)) {
		d.report(Bad, about, "label the namespace, or change spec.namespaceSelector of the network",
			"pods of namespace %s may not be on it: its spec.namespaceSelector (%s) does not select the namespace",
			namespace, metav1.FormatLabelSelector(network.Spec.NamespaceSelector))
	}
}

// mutatedByWebhook checks whether the webhook has changed the pod.
func (d *Doctor) mutatedByWebhook(pod *corev1.Pod, names []string) {
	const about = "webhook"
	var lacks []string
	if pod.Labels[v1alpha1.PodLabel] == "" {
		lacks = append(lacks, "the label "+v1alpha1.PodLabel)
	}
	for _, name := range names {
		if !strings.Contains(pod.Annotations[attachedTo], name) {
			lacks = append(lacks, "the attachment "+name+" for Multus")
		}
	}
	hasVolume := func(volume corev1.Volume) bool { return volume.CSI != nil && volume.CSI.Driver == v1alpha1.CSIDriver }
	if !isOfKata(pod) && !slices.ContainsFunc(pod.Spec.Volumes, hasVolume) {
		lacks = append(lacks, "the volume of "+v1alpha1.CSIDriver)
	}
	if len(lacks) > 0 {
		d.report(Bad, about, makeAnew+"; if that does not help, `ktsn doctor` without a name looks at the operator",
			"the pod lacks %s: the annotation was added after the pod was made, or the webhook was not running", strings.Join(lacks, ", "))
		return
	}
	switch wanted := pod.Annotations[v1alpha1.DeviceAnnotation]; {
	case isOfKata(pod):
		d.ok(about, "has added the attachment, for a virtual machine of Kata by %s", wanted)
	case wanted != "":
		d.ok(about, "has added attachment and volume, for a virtual machine by %s", wanted)
	default:
		d.ok(about, "has added attachment, volume and LD_PRELOAD")
	}
}

func (d *Doctor) attachment(ctx context.Context, namespace, network string) {
	about := "attachment " + network
	var there map[string]any
	err := d.Cluster.Get(ctx, clusterreader.Attachments, namespace, network, &there)
	switch {
	case err == nil:
		d.ok(about, "Multus knows the network in namespace %s", namespace)
	case apierrors.IsNotFound(err):
		d.report(Bad, about, "if `kubectl get crd network-attachment-definitions.k8s.cni.cncf.io` finds nothing, install Multus; else see what the network's conditions say",
			"there is no NetworkAttachmentDefinition %s in namespace %s", network, namespace)
	default:
		d.unreadable(about, err)
	}
}

func (d *Doctor) scheduled(pod *corev1.Pod) {
	const about = "placement"
	if pod.Spec.NodeName != "" {
		d.ok(about, "the pod is on node %s", pod.Spec.NodeName)
		return
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			d.report(Bad, about, "give the scheduler a node that fits; a network asks for nothing beside it, except for a good clock where it has spec.clock: "+
				"`ktsn clock` shows where that is", "the pod has no node: %s", condition.Message)
			return
		}
	}
	d.report(Note, about, "wait a moment", "the scheduler has not considered the pod yet")
}

// attached reports the interfaces that Multus has created.
func (d *Doctor) attached(pod *corev1.Pod, names []string) {
	const about = "interfaces"
	if condition := podstatus.Attached(pod); condition != nil && condition.Status == corev1.ConditionFalse {
		d.report(Bad, about, makeAnew, "%s: %s", condition.Reason, condition.Message)
		return
	}
	var created []struct {
		Name, Interface string
		IPs             []string
	}
	text := pod.Annotations[attachedStatus]
	if text == "" {
		d.report(Bad, about, "the pod's Events say what Multus or tsn-cni lacks", "the pod has no networks yet")
		return
	}
	if err := json.Unmarshal([]byte(text), &created); err != nil {
		d.report(Note, about, "", "annotation %s cannot be read: %s", attachedStatus, err.Error())
		return
	}
	for _, name := range names {
		at := -1
		for i := range created {
			if created[i].Name == name || strings.HasSuffix(created[i].Name, "/"+name) {
				at = i
			}
		}
		if at < 0 {
			d.report(Bad, about, makeAnew, "the pod was attached without network %s", name)
			continue
		}
		d.ok(about, "%s of network %s has %s", created[at].Interface, name, strings.Join(created[at].IPs, ", "))
	}
}

func (d *Doctor) running(pod *corev1.Pod) {
	for _, status := range pod.Status.ContainerStatuses {
		about := "container " + status.Name
		switch {
		case status.State.Waiting != nil:
			d.report(Bad, about, "the pod's Events say more", "waits: %s %s", status.State.Waiting.Reason, status.State.Waiting.Message)
		case status.State.Terminated != nil:
			d.report(Bad, about, "`kubectl logs` shows its output", "has ended with status %d: %s", status.State.Terminated.ExitCode,
				status.State.Terminated.Reason)
		default:
			d.ok(about, "runs")
		}
	}
}

// inKtsnd reports the state of the pod in the node's ktsnd.
func (d *Doctor) inKtsnd(ctx context.Context, pod *corev1.Pod, networks []v1alpha1.TSNNetwork) {
	const about = "ktsnd"
	state, err := d.AskKtsnd(ctx, pod.Spec.NodeName)
	if err != nil {
		d.unreadable(about, err)
		return
	}
	uid := string(pod.UID)
	at := slices.IndexFunc(state.Pods, func(pod controlPod) bool { return pod.Identity == uid })
	if at < 0 {
		d.report(Bad, about, makeAnew, "ktsnd on node %s does not know the pod", pod.Spec.NodeName)
		return
	}
	entry := &state.Pods[at]
	d.machines(pod, state)
	switch {
	case entry.Path == "":
		d.report(Bad, about, "check the agent on the node: `ktsn doctor --node "+pod.Spec.NodeName+"`", "the pod has no socket of ktsnd: its volume is missing")
	case entry.Endpoints == 0:
		d.report(Bad, about, makeAnew, "ktsnd knows no interface of the pod")
	case entry.RelayConnections == 0 && isOfKata(pod):
		d.report(Bad, about, "see the log of ktsn-agent on the node", "no relay serves the pod's machine, so its frames with a transmit time do not leave")
	case entry.Processes == 0 && entry.RelayConnections == 0:
		d.report(Note, about, "a program asks with SO_TXTIME; static programs, Go programs and those that are set-uid do so past libktsn.so, and are captured where the network does",
			"no process of the pod has asked for transmit times yet")
	default:
		d.flows(state, uid, entry, isOfKata(pod))
	}
	d.rings(pod, networks, entry)
}

// flows reports the outcome of the pod's messages.
func (d *Doctor) flows(state *State, uid string, pod *controlPod, machine bool) {
	const about = "messages"
	var sent, late, dropped uint64
	for _, flow := range state.Flows {
		if flow.Identity == uid {
			sent, late, dropped = sent+flow.Sent, late+flow.Late, dropped+flow.Dropped
		}
	}
	switch {
	case pod.Processes > 0:
		d.ok("ktsnd", "serves the pod: processes %d, timed sockets %d", pod.Processes, pod.Sockets)
	case machine:
		d.ok("ktsnd", "serves the pod's machine by its relay")
	default:
		d.ok("ktsnd", "serves the pod by its relay alone: no process has asked for transmit times through libktsn.so")
	}
	switch {
	case dropped > 0:
		d.report(Note, about, "`ktsn status` on the node counts the reasons, and the application is told of each by its error queue",
			"messages of its open sockets: %d left, %d of them late, and %d were not sent", sent, late, dropped)
	case late > 0:
		d.report(Note, about, "`ktsn status` on the node counts the reasons; most often the application hands messages over too late",
			"messages of its open sockets: %d left, %d of them late", sent, late)
	default:
		d.ok(about, "messages of its open sockets: %d left, none late", sent)
	}
}

// maxEvents limits the Events that are shown.
const maxEvents = 5

// events shows the last warnings about the pod. Warnings from before it became ready are omitted: a node's first pod on a network waits
// for ktsnd and the agent, which start after it.
func (d *Doctor) events(ctx context.Context, pod *corev1.Pod) {
	all, err := clusterreader.List[corev1.Event](ctx, d.Cluster, clusterreader.Events, pod.Namespace, "", "involvedObject.uid="+string(pod.UID))
	if err != nil {
		d.unreadable("Events", err)
		return
	}
	ready := readySince(pod)
	all = slices.DeleteFunc(all, func(event corev1.Event) bool {
		over := !ready.IsZero() && !event.LastTimestamp.IsZero() && event.LastTimestamp.Time.Before(ready)
		return event.Type != corev1.EventTypeWarning || over
	})
	slices.SortFunc(all, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	for _, event := range all[max(0, len(all)-maxEvents):] {
		level, mend := Note, ""
		if isOfNoRuntime(&event) {
			level, mend = Bad, noRuntimeMend
		}
		d.report(level, "Event", mend, "%s: %s", event.Reason, strings.TrimSpace(event.Message))
	}
}

// readySince returns when the pod became ready, or zero if it is not.
func readySince(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
