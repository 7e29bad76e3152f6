// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
	"github.com/kubernetsn/kubernetsn/internal/node/hostsettings"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// world is a cluster in which all is well; tests spoil it.
type world struct {
	links    []v1alpha1.TSNLink
	pod      corev1.Pod
	ktsndPod corev1.Pod
	standBy  corev1.Pod
	agent    corev1.Pod
	operator corev1.Pod
	node     corev1.Node
	network  v1alpha1.TSNNetwork
	state    v1alpha1.TSNNode
	driver   string
	attached bool
	trust    string
	ktsnd    State
	errKtsnd error
	captured []capture.At
	settings []hostsettings.Setting
	host     []hostcheck.Finding
	events   []corev1.Event
	// handler is that of RuntimeClass kata; "": there is no such class.
	handler string
	// guest is what ktsn-guest says, by all its arguments or the first, errGuest how it ends.
	guest    map[string]string
	errGuest error
	// nodes and pods are further ones.
	nodes []corev1.Node
	pods  []corev1.Pod
}

func well() *world {
	running := []corev1.ContainerStatus{{Name: "app", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	yes := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsAsked}}
	w := &world{driver: v1alpha1.CSIDriver, attached: true, trust: "Q0E="}
	w.pod = corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default", UID: "u1", Labels: map[string]string{v1alpha1.PodLabel: "true"},
			Annotations: map[string]string{v1alpha1.NetworkAnnotation: "tsn", attachedTo: "tsn@tsn0",
				attachedStatus: `[{"name":"default/tsn","interface":"tsn0","ips":["10.42.0.2"]}]`}},
		Spec: corev1.PodSpec{NodeName: "a", Volumes: []corev1.Volume{{Name: "ktsn", VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.CSIDriver}}}}},
		Status: corev1.PodStatus{ContainerStatuses: running},
	}
	get := func(component string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: component, Namespace: clusterreader.DefaultSystem, Labels: map[string]string{
				"app.kubernetes.io/name": "kubernetsn", "app.kubernetes.io/component": component}},
			Spec:   corev1.PodSpec{NodeName: "a"},
			Status: corev1.PodStatus{ContainerStatuses: slices.Clone(running), Conditions: ready},
		}
	}
	w.ktsndPod, w.agent, w.operator = get("ktsnd"), get("agent"), get("operator")
	w.node = corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.NodeLabel: "true"}},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KernelVersion: "6.1.0-13-amd64"}}}
	w.network = v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}, Status: v1alpha1.TSNNetworkStatus{
		Conditions: slices.Clone(yes), NodesReady: "1/1"}}
	w.state = v1alpha1.TSNNode{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: v1alpha1.TSNNodeSpec{Networks: []v1alpha1.NodeNetwork{{Name: "tsn", IPv4: "10.42.0.0/24"}}},
		Status: v1alpha1.TSNNodeStatus{AgentVersion: "1", Networks: []v1alpha1.NodeNetworkStatus{
			{Name: "tsn", Uplink: "eth0", LinkSpeed: "1Gbit", Conditions: slices.Clone(yes)}}}}
	w.ktsnd = State{Instance: &control.Instance{Name: "ktsnd"}, Status: &control.Status{Scheduler: "SCHED_FIFO", Clock: control.Clock{Synchronized: true}},
		Pods:  []control.Pod{{Identity: "u1", Path: "/run/x", Endpoints: 1, Processes: 1, Sockets: 1}},
		Flows: []control.Flow{{Identity: "u1", Sent: 5}}}
	w.captured = []capture.At{{Identity: "u1", Interface: "tsn0", Count: capture.Count{Attached: true, Mode: capture.Timed},
		Node: capture.PortCount{RelayIfindex: 4}}, {Identity: "u2", Interface: "tsn0", Failure: "of another"}}
	return w
}

// clock has the network ask for good clocks, and the node and the network say this of them.
func (w *world) clock(status metav1.ConditionStatus, reason, text string) {
	w.network.Spec.Clock = &v1alpha1.ClockRequirement{}
	condition := metav1.Condition{Type: v1alpha1.ConditionClockSynchronized, Status: status, Reason: reason, Message: text}
	w.network.Status.Conditions = append(w.network.Status.Conditions, condition)
	w.state.Status.Networks[0].Conditions = append(w.state.Status.Networks[0].Conditions, condition)
}

// rings has the pod ask for receive rings, on a network that offers them, and ktsnd say this of them.
func (w *world) rings(receive control.PodReceive) {
	w.pod.Annotations[v1alpha1.ReceiveAnnotation] = v1alpha1.ReceiveRing
	w.network.Spec.Receive = &v1alpha1.Receive{Rings: v1alpha1.RingsAllowed}
	w.ktsnd.Pods[0].Receive = receive
}

// replaced has a newer ktsnd serve, and the one before stand by.
func (w *world) replaced() {
	w.standBy, w.ktsndPod = w.ktsndPod, *w.ktsndPod.DeepCopy()
	w.ktsndPod.Name = "newer"
	w.standBy.Status.Conditions = nil
	w.standBy.Status.ContainerStatuses[0].Ready = false
	w.ktsnd.Instance = &control.Instance{Name: "newer", StandingBy: []string{"ktsnd"}}
}

// doctor is one that looks at this world.
func (w *world) doctor(t *testing.T) *Doctor {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{clusterreader.Pods: "PodList", clusterreader.Nodes: "NodeList", clusterreader.Namespaces: "NamespaceList",
		clusterreader.Events: "EventList", clusterreader.CSINodes: "CSINodeList", clusterreader.Networks: "TSNNetworkList", clusterreader.TSNNodes: "TSNNodeList",
		clusterreader.TSNLinks: "TSNLinkList",
		clusterreader.Runtimes: "RuntimeClassList", clusterreader.Attachments: "NetworkAttachmentDefinitionList", clusterreader.Webhooks: "MutatingWebhookConfigurationList"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	add := func(resource schema.GroupVersionResource, kind string, object any) {
		t.Helper()
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		createdObject := &unstructured.Unstructured{Object: fields}
		createdObject.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
		if err := client.Tracker().Create(resource, createdObject, createdObject.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range []*corev1.Pod{&w.pod, &w.ktsndPod, &w.standBy, &w.agent, &w.operator} {
		if pod.Name != "" {
			add(clusterreader.Pods, "Pod", pod)
		}
	}
	for i := range w.pods {
		add(clusterreader.Pods, "Pod", &w.pods[i])
	}
	add(clusterreader.Nodes, "Node", &w.node)
	for i := range w.nodes {
		add(clusterreader.Nodes, "Node", &w.nodes[i])
	}
	add(clusterreader.Namespaces, "Namespace", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	if w.network.Name != "" {
		add(clusterreader.Networks, "TSNNetwork", &w.network)
	}
	if w.state.Name != "" {
		add(clusterreader.TSNNodes, "TSNNode", &w.state)
	}
	for i := range w.links {
		add(clusterreader.TSNLinks, "TSNLink", &w.links[i])
	}
	add(clusterreader.CSINodes, "CSINode", &map[string]any{"metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"drivers": []any{map[string]any{"name": w.driver}}}})
	if w.attached {
		add(clusterreader.Attachments, "NetworkAttachmentDefinition", &map[string]any{"metadata": map[string]any{"name": "tsn", "namespace": "default"}})
	}
	if w.handler != "" {
		add(clusterreader.Runtimes, "RuntimeClass", &map[string]any{"metadata": map[string]any{"name": "kata"}, "handler": w.handler})
	}
	for i := range w.events {
		add(clusterreader.Events, "Event", &w.events[i])
	}
	add(clusterreader.Webhooks, "MutatingWebhookConfiguration", &map[string]any{"metadata": map[string]any{"name": "kubernetsn"},
		"webhooks": []any{map[string]any{"clientConfig": map[string]any{"caBundle": w.trust}}}})
	return &Doctor{Cluster: &clusterreader.Cluster{Client: client, System: clusterreader.DefaultSystem},
		AskKtsnd:    func(context.Context, string) (*State, error) { return &w.ktsnd, w.errKtsnd },
		AskCapture:  func(context.Context, string) ([]capture.At, error) { return w.captured, w.errKtsnd },
		AskHost:     func(context.Context, string) ([]hostcheck.Finding, error) { return w.host, w.errKtsnd },
		AskSettings: func(context.Context, string) ([]hostsettings.Setting, error) { return w.settings, w.errKtsnd },
		AskGuest: func(_ context.Context, _ *corev1.Pod, container string, arguments ...string) (string, error) {
			if container != "ktsn-guest" {
				return "", fmt.Errorf("container %s has no ktsn-guest", container)
			}
			if owner, ok := w.guest[strings.Join(arguments, " ")]; ok {
				return owner, w.errGuest
			}
			return w.guest[arguments[0]], w.errGuest
		}}
}

// look has the doctor look at the pod, the node and the cluster.
func (w *world) look(t *testing.T, where string) []Finding {
	t.Helper()
	d := w.doctor(t)
	var findings []Finding
	var err error
	switch where {
	case "pod":
		findings, err = d.CheckPod(t.Context(), "default", "app")
	case "node":
		findings, err = d.CheckNode(t.Context(), "a")
	default:
		findings, err = d.CheckCluster(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func TestNoFindingsWithoutFaults(t *testing.T) {
	for _, where := range []string{"pod", "node", "cluster"} {
		findings := well().look(t, where)
		for _, finding := range findings {
			if finding.Level != OK {
				t.Errorf("%s: %+v", where, finding)
			}
		}
		if len(findings) < 3 {
			t.Errorf("%s: little was looked at: %+v", where, findings)
		}
	}
}

// detach has the agent find that the pod has no interface.
func (w *world) detach() {
	w.pod.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.ConditionAttached, Status: corev1.ConditionFalse,
		Reason: v1alpha1.ReasonMultusPassedBy, Message: "without Multus"}}
}

// enlarge adds nodes that are well.
func (w *world) enlarge(count int) {
	for i := range count {
		node := w.node.DeepCopy()
		node.Name = fmt.Sprintf("node-%04d", i)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		w.nodes = append(w.nodes, *node)
		for _, pod := range []*corev1.Pod{&w.ktsndPod, &w.agent} {
			pod = pod.DeepCopy()
			pod.Name, pod.Spec.NodeName = fmt.Sprintf("%s-%04d", pod.Name, i), node.Name
			w.pods = append(w.pods, *pod)
		}
	}
}

func TestManyNodes(t *testing.T) {
	for name, test := range map[string]struct {
		spoil    func(*world)
		nodes    int // how many are looked at one by one
		level    Level
		sentence string
	}{
		"none": {func(*world) {}, 0, OK, "201 of 201 have a ktsnd and an agent that are ready"},
		"one without ktsnd": {func(w *world) { w.pods[0].Status.Conditions = nil }, 1, OK,
			"200 of 201 have a ktsnd and an agent that are ready"},
		"one that is away": {func(w *world) { w.nodes[7].Status.Conditions[0].Status = corev1.ConditionUnknown }, 1, OK,
			"200 of 201 have a ktsnd and an agent that are ready"},
		"all agents": {func(w *world) {
			for i := range w.pods {
				if strings.HasPrefix(w.pods[i].Name, "agent") {
					w.pods[i].Status.Conditions = nil
				}
			}
		}, 50, Bad, "1 of 201 have a ktsnd and an agent that are ready; 50 of the others follow"},
	} {
		t.Run(name, func(t *testing.T) {
			w := well()
			w.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			w.enlarge(200)
			test.spoil(w)
			looked, reported := 0, false
			for _, finding := range w.look(t, "cluster") {
				if finding.About == "volumes" {
					looked++
				}
				reported = reported || finding.About == "nodes" && finding.Level == test.level && finding.Text == test.sentence
			}
			if looked != test.nodes || !reported {
				t.Errorf("%d nodes were looked at, want %d; it says %q: %v", looked, test.nodes, test.sentence, reported)
			}
		})
	}
}

func TestFindByUID(t *testing.T) {
	const uid = "5b1f9c1e-4a0e-4d0c-9f53-0a3f1c7b6d10"
	w := well()
	w.pod.UID, w.ktsnd.Pods[0].Identity, w.ktsnd.Flows[0].Identity = uid, uid, uid
	d := w.doctor(t)
	findings, err := d.CheckPod(t.Context(), "elsewhere", uid)
	if err != nil || Faults(findings) > 0 || len(findings) < 3 {
		t.Errorf("found %+v, %v", findings, err)
	}
	for name, want := range map[string]string{"11111111-2222-3333-4444-555555555555": "no pod has the UID", "app": "look at pod elsewhere/app: "} {
		if _, err := d.CheckPod(t.Context(), "elsewhere", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// peer is another node of network 42, with the MTU of the route to it, and how many of its announcements were lost.
func peer(address string, mtu, lost int) control.Peer {
	return control.Peer{VNI: 42, Address: netip.MustParseAddr(address), MTU: mtu, Health: &control.PeerHealth{Announced: 64, Lost: lost}}
}

func TestFindings(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	for name, test := range map[string]struct {
		where    string
		spoil    func(w *world)
		level    Level
		sentence string
	}{
		"no annotation":       {"pod", func(w *world) { delete(w.pod.Annotations, v1alpha1.NetworkAnnotation) }, Bad, "has no annotation kubernetsn.io/network"},
		"a spoilt annotation": {"pod", func(w *world) { w.pod.Annotations[v1alpha1.NetworkAnnotation] = "A" }, Bad, `"A" is no name`},
		"an unknown network":  {"pod", func(w *world) { w.network.Name = "" }, Bad, "there is no TSNNetwork tsn"},
		"another namespace": {"pod", func(w *world) {
			w.network.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
		}, Bad, "pods of namespace default may not be on it"},
		"made before":         {"pod", func(w *world) { w.pod.Spec.Volumes = nil; w.pod.Labels = nil }, Bad, "lacks the label kubernetsn.io/on-network, the volume of csi.kubernetsn.io"},
		"no attachment":       {"pod", func(w *world) { w.attached = false }, Bad, "there is no NetworkAttachmentDefinition tsn in namespace default"},
		"no node":             {"pod", func(w *world) { w.pod.Spec.NodeName = "" }, Note, "has not considered the pod yet"},
		"no interface":        {"pod", func(w *world) { delete(w.pod.Annotations, attachedStatus) }, Bad, "the pod has no networks yet"},
		"another's interface": {"pod", func(w *world) { w.pod.Annotations[attachedStatus] = `[{"name":"cbr0"}]` }, Bad, "attached without network tsn"},
		"a missing interface": {"pod", (*world).detach, Bad, "MultusPassedBy: without Multus"},
		"a pod that has none": {"cluster", (*world).detach, Bad, "MultusPassedBy: without Multus"},
		"many that have none": {"cluster", func(w *world) {
			w.detach()
			for i := range 12 {
				pod := w.pod.DeepCopy()
				pod.Name = fmt.Sprint("app-", i)
				w.pods = append(w.pods, *pod)
			}
		}, Bad, "3 more pods lack an interface"},
		"a container that waits": {"pod", func(w *world) { w.pod.Status.ContainerStatuses[0].State = waiting }, Bad, "ImagePullBackOff"},
		"unknown to ktsnd":       {"pod", func(w *world) { w.ktsnd.Pods = nil }, Bad, "does not know the pod"},
		"no socket":              {"pod", func(w *world) { w.ktsnd.Pods[0].Path = "" }, Bad, "has no socket of ktsnd"},
		"no endpoint":            {"pod", func(w *world) { w.ktsnd.Pods[0].Endpoints = 0 }, Bad, "knows no interface of the pod"},
		"nobody who asked":       {"pod", func(w *world) { w.ktsnd.Pods[0].Processes = 0 }, Note, "no process of the pod has asked for transmit times"},
		"nobody but the relay":   {"pod", func(w *world) { w.ktsnd.Pods[0].Processes, w.ktsnd.Pods[0].RelayConnections = 0, 1 }, OK, "serves the pod by its relay alone"},
		"lost announcements": {"node", func(w *world) {
			w.ktsnd.Peers = []control.Peer{peer("192.0.2.2", 0, 3), peer("192.0.2.3", 0, 7), peer("192.0.2.4", 0, 2)}
		}, Note, "announcements of other nodes were lost (nodes: 2), so messages may be lost, too; most of 192.0.2.3: 7 of the last 64"},
		"routes with small MTUs": {"node", func(w *world) {
			w.ktsnd.Endpoints = []control.AttachedEndpoint{{Endpoint: control.Endpoint{VNI: 42}, MTU: 1450}}
			w.ktsnd.Peers = []control.Peer{peer("192.0.2.2", 1350, 0), peer("192.0.2.3", 1300, 0), peer("192.0.2.4", 1450, 0), peer("192.0.2.5", 0, 0)}
		}, Note, "routes to other nodes (2) have a smaller MTU than the pods' interfaces, and longer messages fail (EMSGSIZE): IP packets to 192.0.2.3 can " +
			"have 1300 bytes, those of the interfaces 1450"},
		"late messages": {"pod", func(w *world) { w.ktsnd.Flows[0].Late = 3 }, Note, "5 left, 3 of them late"},
		"a program past the library": {"pod", func(w *world) {
			w.captured[0].Refused, w.captured[0].Programs = map[string]uint64{"not-captured": 7}, []capture.Program{{Name: "a\x1bb", Refused: 5, PID: 12}}
		}, Bad, `7 messages with a transmit time were dropped because nothing is captured on this network; messages past the library were sent by program "a\x1bb" (5, process 12 of the node)`},
		"one that nobody can name": {"pod", func(w *world) { w.captured[0].Refused = map[string]uint64{"clock": 1} }, Bad, "sent by an unknown program"},
		"a virtual machine": {"pod", func(w *world) {
			w.pod.Annotations["kubernetsn.io/device"], w.captured[0].Device = "tap", "tap"
		}, OK, "is connected by tap"},
		"a virtual machine that was added": {"pod", func(w *world) { w.pod.Annotations["kubernetsn.io/device"] = "tap" }, Bad, "should be connected by tap, and is not"},
		"a virtual machine's volume": {"pod", func(w *world) { w.pod.Annotations["kubernetsn.io/device"] = "vhost-user" }, OK,
			"has added attachment and volume, for a virtual machine by vhost-user"},
		"a captured program": {"pod", func(w *world) { w.captured[0].Captured = 3 }, OK, "3 messages with a transmit time passed it by and were captured"},
		"no relay":           {"pod", func(w *world) { w.captured[0].Node.NoRelay = 3 }, Bad, "3 messages with a transmit time were dropped because no relay ran"},
		"a relay that answers": {"pod", func(w *world) {
			w.captured[0].Mode, w.captured[0].Node = capture.All, capture.PortCount{RelayIfindex: 4, HeartbeatAge: 1e6, Untimed: 8}
		}, OK, "answers; 8 frames without a transmit time were given to the relay"},
		"a relay that does not": {"pod", func(w *world) {
			w.captured[0].Mode, w.captured[0].Node = capture.All, capture.PortCount{RelayIfindex: 4, HeartbeatAge: 60e6}
		}, Bad, "leave by the kernel's bridge, or are dropped"},
		"timed frames without a relay's device": {"pod", func(w *world) { w.captured[0].Node = capture.PortCount{RelayIfindex: 4, RelayGone: true} }, Note,
			"is away, so messages that pass libktsn.so by are dropped"},
		"timed frames with a relay's device": {"pod", func(w *world) { w.captured[0].Node = capture.PortCount{RelayIfindex: 4} }, OK, "where messages that pass libktsn.so by wait for it"},
		"a missing filter":                   {"pod", func(w *world) { w.captured[0].Attached = false }, Bad, "the interface has no filter"},
		"no filter, as asked for": {"pod", func(w *world) {
			w.captured[0].Attached, w.pod.Annotations[v1alpha1.UnseenAnnotation] = false, "pass"
		}, Note, "because the annotation kubernetsn.io/unseen says so"},
		"a filter that cannot be read":    {"pod", func(w *world) { w.captured[0].Failure = "no permission" }, Note, "cannot be read: no permission"},
		"receive rings":                   {"pod", func(w *world) { w.rings(control.PodReceive{Sockets: 2, Received: 9}) }, OK, "sockets with one: 2; 9 datagrams came into them"},
		"receive rings of closed sockets": {"pod", func(w *world) { w.rings(control.PodReceive{Received: 9}) }, OK, "sockets with one: 0; 9 datagrams came into them"},
		"receive rings that nobody offers": {"pod", func(w *world) {
			w.rings(control.PodReceive{})
			w.network.Spec.Receive = &v1alpha1.Receive{Path: v1alpha1.ReceiveRedirect}
		}, Note, "network tsn does not offer any, so the kernel serves what comes on it"},
		"receive rings that nobody asks for": {"pod", func(w *world) { w.rings(control.PodReceive{}) }, Note, "no socket of the pod has requested one"},
		"a socket without a receive ring": {"pod", func(w *world) {
			w.rings(control.PodReceive{Sockets: 1, Refused: 3, Reason: "it wants datagrams joined (UDP_GRO)"})
		}, Note, "3 stayed with the kernel, the last of them because it wants datagrams joined"},
		"a full receive ring":                   {"pod", func(w *world) { w.rings(control.PodReceive{Sockets: 1, Received: 9, Dropped: 4}) }, Note, "and 4 were dropped because a ring was full"},
		"a silent ktsnd":                        {"pod", func(w *world) { w.errKtsnd = errors.New("no answer") }, Note, "cannot be read: no answer"},
		"an unlabelled node":                    {"pod", func(w *world) { w.node.Labels, w.ktsndPod.Name = nil, "" }, Bad, "lacks the label kubernetsn.io/active"},
		"an idle node":                          {"node", func(w *world) { w.node.Labels, w.ktsndPod.Name = nil, "" }, Note, "it has no pod on a network"},
		"a ktsnd without an operator":           {"node", func(w *world) { w.node.Labels = nil }, OK, "run"},
		"no ktsnd":                              {"node", func(w *world) { w.ktsndPod.Name = "" }, Bad, "no pod of the DaemonSet ktsnd is on node a"},
		"ktsnd's image":                         {"node", func(w *world) { w.ktsndPod.Status.ContainerStatuses[0].State = waiting }, Bad, "container app of pod ktsnd waits: ImagePullBackOff"},
		"no agent":                              {"node", func(w *world) { w.agent.Name = "" }, Bad, "no pod of the DaemonSet ktsn-agent is on node a"},
		"an agent that is not ready":            {"node", func(w *world) { w.agent.Status.ContainerStatuses[0].Ready = false }, Bad, "container app of pod agent is not ready"},
		"two ktsnd, of which one serves":        {"node", func(w *world) { w.replaced() }, OK, "pod kubernetsn-system/newer serves"},
		"and the other stands by":               {"node", func(w *world) { w.replaced() }, Note, "pod kubernetsn-system/ktsnd stands by, and pod newer serves"},
		"a ktsnd that does not say which it is": {"node", func(w *world) { w.ktsnd.Instance = nil }, OK, "runs in pod kubernetsn-system/ktsnd"},
		"no task":                               {"node", func(w *world) { w.state.Name = "" }, Bad, "there is no TSNNode a"},
		"no part":                               {"pod", func(w *world) { w.state.Spec.Networks = nil }, Bad, "the node has no subnet of it"},
		"a silent agent":                        {"node", func(w *world) { w.state.Status = v1alpha1.TSNNodeStatus{} }, Bad, "the node's agent has not reported yet"},
		"no driver":                             {"node", func(w *world) { w.driver = "other" }, Bad, "does not know the driver csi.kubernetsn.io"},
		"an old kernel":                         {"node", func(w *world) { w.node.Status.NodeInfo.KernelVersion = "5.10.0-8-amd64" }, Bad, "has kernel 5.10.0-8-amd64"},
		"a setting that costs": {"node", func(w *world) {
			w.settings = []hostsettings.Setting{{Name: "swap", Found: "areas in use: 1", Cost: "late talkers", Mend: "`swapoff -a`"}}
		}, Note, "areas in use: 1: late talkers"},
		"a packet filter that drops tunnels": {"node", func(w *world) {
			w.host = []hostcheck.Finding{{Reason: hostcheck.ReasonTunnelDropped, Breaks: true, Text: "packets are dropped by chain in", Remedy: "accept them"}}
		}, Bad, "packets are dropped by chain in"},
		"a packet filter that may drop them": {"node", func(w *world) {
			w.host = []hostcheck.Finding{{Reason: hostcheck.ReasonTunnelMayBeDropped, Text: "packets may be dropped"}}
		}, Note, "packets may be dropped"},
		"nothing about the host":        {"node", func(*world) {}, OK, "nothing stops packets of tunnels"},
		"a setting with nothing to win": {"node", func(w *world) { w.settings = []hostsettings.Setting{{Name: "swap", Found: "no swap is on"}} }, OK, "no swap is on"},
		"an agent's complaint": {"node", func(w *world) {
			w.state.Status.Networks[0].Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
				Reason: v1alpha1.ReasonUplinkMissing, Message: "eno9"}
		}, Bad, "UplinkMissing: eno9"},
		"a refused schedule": {"node", func(w *world) {
			w.state.Status.Networks[0].Conditions = append(w.state.Status.Networks[0].Conditions, metav1.Condition{
				Type: v1alpha1.ConditionScheduleOperational, Status: metav1.ConditionFalse, Reason: "Refused", Message: "too long"})
		}, Bad, "the schedule is not in force: Refused: too long"},
		"a relay that is away": {"node", func(w *world) {
			w.state.Status.Networks[0].Conditions = append(w.state.Status.Networks[0].Conditions, metav1.Condition{
				Type: v1alpha1.ConditionCaptureOperational, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRelayAway, Message: "killed"})
		}, Bad, "captured frames do not go through ktsnd: RelayAway: killed"},
		"a node that cannot encrypt": {"node", func(w *world) {
			w.state.Status.Networks[0].Conditions = append(w.state.Status.Networks[0].Conditions, metav1.Condition{
				Type: v1alpha1.ConditionEncryptionOperational, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonEncryptionUnavailable, Message: "no ESP"})
		}, Bad, "frames are not encrypted as required: EncryptionUnavailable: no ESP"},
		"a node that waits for keys": {"node", func(w *world) {
			w.state.Status.Networks[0].Conditions = append(w.state.Status.Networks[0].Conditions, metav1.Condition{
				Type: v1alpha1.ConditionEncryptionOperational, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonKeysWaited, Message: "node b"})
		}, Note, "frames are not encrypted as required yet: node b"},
		"a held up ktsnd": {"node", func(w *world) { w.ktsnd.Status.Counters.LateWakeup = 2 }, Note, "2 were late because ktsnd was"},
		"a stopped ktsnd": {"node", func(w *world) {
			w.ktsnd.Status.RealtimeBudget = control.RealtimeBudget{RuntimeNs: 2e8, PeriodNs: 1e9, Stops: 3, StoppedNs: 12e7, Source: "cgroup"}
		}, Note, "the kernel kept ktsnd from its processor 3 times, for 120ms in all; it has 200ms of each 1s (cgroup)"},
		"a ktsnd without gaps": {"node", func(w *world) {
			w.ktsnd.Status.RealtimeBudget = control.RealtimeBudget{RuntimeNs: 2e8, PeriodNs: 1e9, UsedNs: 18e7, MostUsedNs: 19e7, RestsForced: 5,
				Source: "/sys/fs/cgroup/cpu/cpu.rt_runtime_us"}
		}, Note, "had to rest 5 times where no gap between messages was long enough; it uses 90% of its real-time budget, at most 95% " +
			"(/sys/fs/cgroup/cpu/cpu.rt_runtime_us)"},
		"a budget that is enough": {"node", func(w *world) {
			w.ktsnd.Status.RealtimeBudget = control.RealtimeBudget{RuntimeNs: 95e7, PeriodNs: 1e9, UsedNs: 19e7, Rests: 5}
		}, OK, "uses 20% of its real-time budget and was never stopped"},
		"no priority":  {"node", func(w *world) { w.ktsnd.Status.Scheduler = "SCHED_OTHER" }, Note, "no real-time priority"},
		"a free clock": {"node", func(w *world) { w.ktsnd.Status.Clock.Synchronized = false }, Note, "no program disciplines the node's clock"},
		"a clock that is good": {"node", func(w *world) {
			w.state.Status.Clock = &v1alpha1.NodeClock{State: "Synchronized", Since: metav1.Unix(1700000000, 0), ErrorBoundNanoseconds: new(int64(1000)), Source: "PTP", Grandmaster: "gm"}
		}, OK, "Synchronized since 2023-11-14T22:13:20Z, error at most 1µs, by PTP of gm"},
		"a clock that nobody keeps": {"node", func(w *world) {
			w.state.Status.Clock = &v1alpha1.NodeClock{State: "Unknown", Message: "start ptp4l", Steps: 2}
		}, Note, "Unknown, set 2 times: start ptp4l"},
		"a clock that is kept by two": {"node", func(w *world) {
			w.state.Status.Clock = &v1alpha1.NodeClock{State: "Synchronized", Message: "chronyd and phc2sys set it"}
		}, Note, "Synchronized: chronyd and phc2sys set it"},
		"a clock that was set": {"node", func(w *world) { w.ktsnd.Status.Clock.Steps, w.ktsnd.Status.Clock.LastStepNs = 2, -37e9 }, Note,
			"the clock was set 2 times since ktsnd began, the last time by -37s"},
		"a ktsnd that nobody tells of the clock": {"node", func(w *world) {
			w.ktsnd.Clocks = []control.NetworkClock{{VNI: 42, Lost: true, ClockNeed: control.ClockNeed{Good: true, OnLoss: control.OnLossHold}}}
		}, Bad, "ktsnd has had no report about the clock for so long that the clock is lost to network 42 (hold)"},
		"messages by a lost clock": {"node", func(w *world) { w.ktsnd.Status.Counters.ClockLost = 7 }, Note, "7 messages left by a clock that was not good enough"},
		"messages without a clock": {"node", func(w *world) { w.ktsnd.Status.Counters.DropClock = 8 }, Note, "8 messages were not sent because the clock"},
		"no operator":              {"cluster", func(w *world) { w.operator.Name = "" }, Bad, "no ktsn-operator is in namespace kubernetsn-system"},
		"an idle operator":         {"cluster", func(w *world) { w.operator.Status.Conditions = nil }, Bad, "none of 1 is ready"},
		"an untrusted hook":        {"cluster", func(w *world) { w.trust = "" }, Bad, "has no certificate to verify it"},
		"no networks":              {"cluster", func(w *world) { w.network.Name = "" }, Note, "there is no TSNNetwork yet"},
		"a silent node": {"cluster", func(w *world) {
			w.network.Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
				Reason: v1alpha1.ReasonNodeSilent, Message: "node a: it has no agent"}
		}, Bad, "NodeSilent: node a: it has no agent"},
		"a node that starts": {"cluster", func(w *world) {
			w.network.Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
				Reason: v1alpha1.ReasonNodeWaited, Message: "node a: not yet"}
		}, Note, "node a: not yet"},
		"a blocked network": {"cluster", func(w *world) {
			w.network.Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
				Reason: v1alpha1.ReasonRangeUsedUp, Message: "no addresses"}
		}, Bad, "RangeUsedUp: no addresses"},
		"a bad clock": {"node", func(w *world) {
			w.clock(metav1.ConditionFalse, v1alpha1.ReasonClockUnsynchronized, "12us; run ptp4l")
		}, Bad, "is not good enough for network tsn, which gets no new pods there: ClockUnsynchronized: 12us; run ptp4l"},
		"a bad clock under a pod": {"pod", func(w *world) {
			w.clock(metav1.ConditionFalse, v1alpha1.ReasonClockUnknown, "nobody")
		}, Bad, "is not good enough for network tsn, which gets no new pods there: ClockUnknown: nobody"},
		"a clock that nobody keeps any more": {"node", func(w *world) {
			w.clock(metav1.ConditionTrue, v1alpha1.ReasonClockHoldover, "for 20s")
		}, Note, "is still good enough for network tsn: ClockHoldover: for 20s"},
		"a good clock": {"node", func(w *world) { w.clock(metav1.ConditionTrue, v1alpha1.ReasonAsAsked, "") }, OK, "is good enough for network tsn"},
		"a clock of which nobody knows": {"node", func(w *world) { w.clock(metav1.ConditionUnknown, v1alpha1.ReasonClockUnknown, "") }, Note,
			"it is not known yet whether it is good enough for network tsn"},
		"bad clocks of a network": {"cluster", func(w *world) {
			w.network.Status.Conditions = append(w.network.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue,
				Reason: v1alpha1.ReasonClockUnsynchronized, Message: "node a: 12us"})
		}, Note, "ClockUnsynchronized: node a: 12us"},
		"clocks of a network that nobody keeps any more": {"cluster", func(w *world) {
			w.clock(metav1.ConditionTrue, v1alpha1.ReasonClockHoldover, "node a: for 20s")
		}, Note, "ClockHoldover: node a: for 20s"},
		"clocks of which a network does not know": {"cluster", func(w *world) {
			w.clock(metav1.ConditionUnknown, v1alpha1.ReasonNodeWaited, "these have not said: a")
		}, Note, "these have not said: a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := well()
			test.spoil(w)
			findings := w.look(t, test.where)
			at := slices.IndexFunc(findings, func(f Finding) bool { return f.Level == test.level && strings.Contains(f.Text, test.sentence) })
			if at < 0 {
				t.Errorf("found %+v, want %s: %s", findings, test.level, test.sentence)
			}
		})
	}
}

func TestUnimpairedPeersAreNotNoted(t *testing.T) {
	w := well()
	w.ktsnd.Endpoints = []control.AttachedEndpoint{{Endpoint: control.Endpoint{VNI: 42}, MTU: 1280}}
	w.ktsnd.Peers = []control.Peer{peer("192.0.2.2", 1350, 2), {VNI: 42, MTU: 1280}, {VNI: 43, MTU: 1000}, {VNI: 42}}
	for _, finding := range w.look(t, "node") {
		if finding.Level != OK {
			t.Errorf("got %+v", finding)
		}
	}
}

func TestRelieve(t *testing.T) {
	for source, charts := range map[string]bool{"/sys/fs/cgroup/cpu/cpu.rt_runtime_us": true, "kernel.sched_rt_runtime_us": false, "fair server": false} {
		w := well()
		w.ktsnd.Status.RealtimeBudget = control.RealtimeBudget{RuntimeNs: 2e8, PeriodNs: 1e9, RestsForced: 5, Source: source}
		findings := w.look(t, "node")
		at := slices.IndexFunc(findings, func(f Finding) bool { return strings.Contains(f.Text, "had to rest") })
		if at < 0 {
			t.Fatalf("%s: no word of the rests in %+v", source, findings)
		}
		if strings.Contains(findings[at].Mend, "ktsnd.realtimeShare") != charts {
			t.Errorf("%s: the advice is %q", source, findings[at].Mend)
		}
	}
}

func TestFindingsWithoutControlCharacters(t *testing.T) {
	w := well()
	w.pod.Annotations[attachedStatus] = `[{"name":"default/tsn","interface":"\u001b]0;x\u0007\u001b[2J\nok  network  \u202ehas","ips":[]}]`
	w.pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Message: "a\tb\r\nc"}}
	findings, err := w.doctor(t).CheckPod(t.Context(), "default", "app")
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		if strings.ContainsAny(finding.Text, "\x1b\a\t\r\n\u202e") {
			t.Errorf("%s: %q", finding.About, finding.Text)
		}
	}
}

func TestEventsBeforeReady(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.Date(2026, 11, 21, 12, minute, 0, 0, time.UTC) }
	w := well()
	for name, minute := range map[string]int{"Before": 1, "After": 3} {
		w.events = append(w.events, corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Type: corev1.EventTypeWarning,
			Reason: name, LastTimestamp: at(minute)})
	}
	reasons := func() string {
		var all []string
		for _, finding := range w.look(t, "pod") {
			if finding.About == "Event" {
				all = append(all, finding.Text)
			}
		}
		return strings.Join(all, " ")
	}
	if got := reasons(); got != "Before: After:" {
		t.Errorf("of a pod that is not ready: %q", got)
	}
	w.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(2)}}
	if got := reasons(); got != "After:" {
		t.Errorf("of one that became ready in between: %q", got)
	}
}
