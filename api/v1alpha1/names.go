// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Annotations and labels.
const (
	// NetworkAnnotation names the networks of a pod, separated by commas. It is read when the pod is created. As a label of a headless Service it
	// names the network of the addresses that the Service's name has.
	NetworkAnnotation = "kubernetsn.io/network"
	// ContainersAnnotation names the containers of a pod whose timed messages KuberneTSN takes, separated by commas. The default is all
	// containers except init containers that end before the others start.
	ContainersAnnotation = "kubernetsn.io/containers"
	// UnseenAnnotation selects what happens to a pod's datagrams with a transmit time that libktsn.so does not see: "drop" (the default),
	// or "pass", which sends them at once, too early. It is read when the pod is created.
	UnseenAnnotation = "kubernetsn.io/unseen"
	// OffNetworkAnnotation selects what happens to a pod's messages with a transmit time that would leave through an interface that is not
	// of its networks, such as eth0: "refuse" (the default), or "pass", which sends them at once, too early. It is read when the pod is
	// created.
	OffNetworkAnnotation = "kubernetsn.io/off-network"
	// ReceiveAnnotation with the value "ring" delivers datagrams of other nodes to a pod through memory that libktsn.so reads, on networks
	// whose spec.receive.rings is Allowed. It is read when the pod is created.
	ReceiveAnnotation = "kubernetsn.io/receive"
	// AddressesAnnotation requests addresses of a pod's networks, separated by commas, such as "10.70.255.7". The pods of a StatefulSet request
	// ranges of static addresses, such as "10.70.255.16/28", of which each gets the address with its number. It is read when the pod is created.
	AddressesAnnotation = "kubernetsn.io/addresses"
	// DeviceAnnotation selects how a pod's interfaces are connected to a virtual machine in it: "tap", "vhost-user" or "vfio". The default
	// is "tap" for pods of KubeVirt; for pods of Kata it depends on the runtime, and is "veth" if the runtime takes the interface itself.
	// It is read when the pod is created.
	DeviceAnnotation = "kubernetsn.io/device"
	// DeviceQueuesAnnotation sets the number of queue pairs of a virtual machine's interface, 1 to 8. The default is 1.
	DeviceQueuesAnnotation = "kubernetsn.io/device-queues"
	// DeviceClassAnnotation selects the source of the traffic class of frames from a pod's virtual machine: "record" (the default), "pcp" or
	// "queue".
	DeviceClassAnnotation = "kubernetsn.io/device-class"
	// DeviceOwnerAnnotation sets the user ID of the process of a pod's virtual machine. The default is 107 for pods of KubeVirt and 0
	// otherwise.
	DeviceOwnerAnnotation = "kubernetsn.io/device-owner"
	// RuntimeAnnotation with the value "unchecked" admits a pod whose RuntimeClass or handler has a name of gVisor, which is refused otherwise.
	RuntimeAnnotation = "kubernetsn.io/runtime"
	// SelectorAnnotation selects by labels, such as "app=talker", the pods of a Service with the label kubernetsn.io/network.
	SelectorAnnotation = "kubernetsn.io/selector"
	// PodLabel is set on pods with the annotation kubernetsn.io/network, or with labels of links, when they are created. Its value is
	// true.
	PodLabel = "kubernetsn.io/on-network"
	// NodeLabel is set on nodes with such pods. ktsnd and its agent run there. Its value is true.
	NodeLabel = "kubernetsn.io/active"
	// LinkRoutesAnnotation lists the ranges, separated by commas, in which a pod accepts routes (spec.routes) of TSNServices of other
	// namespaces. By default it accepts none.
	LinkRoutesAnnotation = "kubernetsn.io/link-routes"
	// TunnelAddressAnnotation sets the IPv4 address of a node's tunnels. The default is the node's InternalIP.
	TunnelAddressAnnotation = "kubernetsn.io/tunnel-address"
	// WorkloadLabel names the workload of an object and of its pods, in a cluster of a hub.
	WorkloadLabel = "federation.kubernetsn.io/workload"
	// ClientLabelPrefix and the name of a TSNService, or SERVICE.NAMESPACE, form the label of a pod that requests a link. Its value is
	// the name of the interface.
	ClientLabelPrefix = "client.kubernetsn.io/"
	// EndpointLabelPrefix and the name of a TSNService form the label of an endpoint. Its value is the prefix of the interface names; a
	// number follows.
	EndpointLabelPrefix = "endpoint.kubernetsn.io/"
	// NetworkLabel names the TSNNetwork of a NetworkAttachmentDefinition or of TSNPeers.
	NetworkLabel = "kubernetsn.io/tsnnetwork"
	// ClockLabelPrefix and the name of a TSNNetwork form the label of a node whose clock is not accurate enough for the network. New pods of
	// the network are not scheduled there. Its value is ClockLost.
	ClockLabelPrefix = "clock.kubernetsn.io/"
)

// Other names.
const (
	// Finalizer keeps a TSNNetwork until there are no pods on the network.
	Finalizer = "kubernetsn.io/in-use"
	// HubHeartbeat is the ConfigMap in the operator's namespace that a hub renews in each of its clusters. Karmada does not propagate Leases.
	HubHeartbeat = "kubernetsn-hub"
	// HubObservedAt is the key of HubHeartbeat with the time of the last renewal, in RFC 3339.
	HubObservedAt = "observedAt"
	// CSIDriver is the driver of the volume that gives a pod the folder with libktsn.so and the pod's own socket.
	CSIDriver = "csi.kubernetsn.io"
)

// Values of UnseenAnnotation.
const (
	// UnseenDrop : such datagrams are dropped and counted.
	UnseenDrop = "drop"
	// UnseenPass : such datagrams are sent at once, too early.
	UnseenPass = "pass"
)

// Values of OffNetworkAnnotation.
const (
	// OffNetworkRefuse : sendmsg fails with ENETUNREACH; what libktsn.so does not see is dropped and counted.
	OffNetworkRefuse = "refuse"
	// OffNetworkPass : such messages are sent at once, too early.
	OffNetworkPass = "pass"
)

// RuntimeUnchecked is the value of RuntimeAnnotation.
const RuntimeUnchecked = "unchecked"

// ReceiveRing is the value of ReceiveAnnotation.
const ReceiveRing = "ring"

// Values of DeviceAnnotation.
const (
	// DeviceTap : a tap in the pod's network namespace.
	DeviceTap = "tap"
	// DeviceVhostUser : a socket of vhost-user in the pod's volume.
	DeviceVhostUser = "vhost-user"
	// DeviceVFIO : a network card of the node that spec.cards of the network lists.
	DeviceVFIO = "vfio"
)

// Values of a TSNNetwork's spec.receive.path.
const (
	// ReceiveBridge : the kernel's tunnel device and bridge.
	ReceiveBridge = "Bridge"
	// ReceiveRedirect : from the uplink to the pod's interface, past both.
	ReceiveRedirect = "Redirect"
)

// Values of a TSNNetwork's spec.receive.rings.
const (
	// RingsRefused : the kernel serves all sockets.
	RingsRefused = "Refused"
	// RingsAllowed : pods that ask have receive rings.
	RingsAllowed = "Allowed"
)

// Values of a TSNNetwork's spec.capture.
const (
	// CaptureNone : no frames.
	CaptureNone = "None"
	// CaptureTimed : frames with a transmit time.
	CaptureTimed = "Timed"
	// CaptureAll : all frames.
	CaptureAll = "All"
)

// Values of a TSNNetwork's spec.clock.onLoss.
const (
	// OnLossContinue : messages are sent by the node's clock and counted.
	OnLossContinue = "Continue"
	// OnLossHold : messages with a transmit time wait until the clock is good again or their horizon ends.
	OnLossHold = "Hold"
	// OnLossRefuse : waiting messages are sent; further calls fail with ENETDOWN.
	OnLossRefuse = "Refuse"
)

// ClockLost is the value of labels with ClockLabelPrefix.
const ClockLost = "lost"

// LabelValue is the value of PodLabel and NodeLabel.
const LabelValue = "true"

// Types of conditions of a TSNNetwork, and of its nodes.
const (
	// ConditionReady is True for a network if pods can be attached on every node that needs it, and for a node if its agent has set up
	// the network.
	ConditionReady = "Ready"
	// ConditionDegraded is True if a part of the spec is not fulfilled. Pods may still be attached.
	ConditionDegraded = "Degraded"
	// ConditionScheduleAccepted is True if the nodes shall execute the network's schedule.
	ConditionScheduleAccepted = "ScheduleAccepted"
	// ConditionScheduleOperational is True for a node if its ktsnd executes the schedule.
	ConditionScheduleOperational = "ScheduleOperational"
	// ConditionCaptureOperational is True for a node if the frames that spec.capture selects go through its ktsnd. A node without
	// captured pods does not have it.
	ConditionCaptureOperational = "CaptureOperational"
	// ConditionPeersReachable is True for a node if it receives from the other nodes of its cluster on the network, as far as that is
	// measured. A node without others does not have it.
	ConditionPeersReachable = "PeersReachable"
	// ConditionClockSynchronized is True for a node if its clock is good enough for the network's spec.clock, and for a network if the
	// clocks of all its nodes are. Networks without spec.clock do not have it.
	ConditionClockSynchronized = "ClockSynchronized"
	// ConditionHubSeen is True for a network with spec.ipv4.part if the hub has renewed its heartbeat recently. The network keeps working
	// in the cluster while it is False; only new nodes of other clusters are unknown.
	ConditionHubSeen = "HubSeen"
)

// Types of conditions of pods.
const (
	// ConditionAttached : the pod has an interface on each network of its annotation kubernetsn.io/network. It is also the readiness gate of
	// such pods. Only the agent of the pod's node sets it.
	ConditionAttached = "kubernetsn.io/attached"
)

// Types of conditions of a TSNNode.
const (
	// ConditionHostReady is False if a setting of the node stops traffic for certain: the message has the cause and the remedy. It is Unknown
	// while not all settings can be checked. Networks stay Ready meanwhile.
	ConditionHostReady = "HostReady"
)

// Types of conditions of a TSNLink.
const (
	// ConditionClientPlugged is True if the client has its interface.
	ConditionClientPlugged = "ClientPlugged"
	// ConditionEndpointPlugged is True if the endpoint has its interface.
	ConditionEndpointPlugged = "EndpointPlugged"
	// ConditionUp is True if the ends reach each other with packets of the link's MTU.
	ConditionUp = "Up"
	// ConditionAdmitted is True if agents may plug a link that the operator did not create.
	ConditionAdmitted = "Admitted"
)

// Names of links.
const (
	// LinkMakerLabel names the creator of a TSNLink, which also removes it: MakerOperator or MakerFederator.
	LinkMakerLabel = "kubernetsn.io/link-maker"
	// MakerOperator : ktsn-operator creates the links of two pods of its cluster.
	MakerOperator = "operator"
	// MakerFederator : ktsn-federator creates the links of pods of two clusters.
	MakerFederator = "federator"
	// ServiceLabel names the TSNService of an object.
	ServiceLabel = "kubernetsn.io/tsnservice"
	// LinksAttachment is the NetworkAttachmentDefinition, in the operator's namespace, of pods with links.
	LinksAttachment = "kubernetsn-links"
	// LinkNetwork is the name of all links together, on nodes and in signatures of clusters. No TSNNetwork has it.
	LinkNetwork = "kubernetsn-link"
	// LinkDomain is the domain of the long names of pods at the ends of links. ICANN reserves .internal for private use.
	LinkDomain = "tsn.internal"
)

// Values of a TSNService's spec.routes.behind.
const (
	// BehindEndpoint : the addresses are beyond the endpoint.
	BehindEndpoint = "Endpoint"
	// BehindClient : the addresses are beyond the client.
	BehindClient = "Client"
)

// Values of a TSNService's spec.prefer.
const (
	// PreferSameNode : an endpoint on the client's node, else in its cluster, else any.
	PreferSameNode = "SameNode"
	// PreferSameCluster : an endpoint in the client's cluster, else any.
	PreferSameCluster = "SameCluster"
	// PreferAny : the endpoint with the fewest links.
	PreferAny = "Any"
)

// Values of spec.encryption.
const (
	// EncryptionNone : frames between nodes are not encrypted.
	EncryptionNone = "None"
	// EncryptionPreferred : frames are encrypted if the nodes can; on a network, while all of its nodes can.
	EncryptionPreferred = "Preferred"
	// EncryptionRequired : frames are encrypted or not sent.
	EncryptionRequired = "Required"
)

// Reasons of Events of nodes.
const (
	// ReasonTSNNodeLeftOut : the node has no subnet of a network's ranges, or no tunnel address of its own; pods there cannot be on the
	// network.
	ReasonTSNNodeLeftOut = "TSNNodeLeftOut"
	// ReasonTSNNodeRepaired : another program changed or removed bridges, tunnels or ports of networks on the node, and the agent
	// repaired them.
	ReasonTSNNodeRepaired = "TSNNodeRepaired"
	// ReasonTSNFilterRestored : another program removed or changed the filter that protects the tunnels of the node, and the agent restored
	// it.
	ReasonTSNFilterRestored = "TSNFilterRestored"
	// ReasonClockSynchronized : the clock of the node is good enough again. Other states have the reasons of conditions.
	ReasonClockSynchronized = "ClockSynchronized"
	// ReasonClockStepped : the clock of the node was stepped.
	ReasonClockStepped = "ClockStepped"
)

// Reasons of conditions, and of Events of TSNNetworks and pods.
const (
	// ReasonAsAsked : the spec is fulfilled.
	ReasonAsAsked = "AsAsked"
	// ReasonMultusPassedBy : the pod's sandbox was made without Multus, so that the pod is on none of its networks.
	ReasonMultusPassedBy = "MultusPassedBy"
	// ReasonNotAttached : Multus did not attach the pod to the network.
	ReasonNotAttached = "NotAttached"
	// ReasonDetached : the pod's interface on the network was removed while the pod runs.
	ReasonDetached = "Detached"
	// ReasonScheduleInvalid : the schedule breaks a rule, which the message names. The previous schedule stays in force.
	ReasonScheduleInvalid = "ScheduleInvalid"
	// ReasonScheduleOfAnother : an older network has a schedule or traffic classes; only one network of a cluster can have them.
	ReasonScheduleOfAnother = "ScheduleOfAnother"
	// ReasonRangeUsedUp : there are more nodes with pods than subnets in the range. Enlarge the range.
	ReasonRangeUsedUp = "RangeUsedUp"
	// ReasonUplinkMissing : the network requires an uplink that is not the one of the node's ktsnd.
	ReasonUplinkMissing = "UplinkMissing"
	// ReasonNodeNotReady : a part of the node's agent is not healthy; the message names it.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonNodeWaited : a node has not reported yet.
	ReasonNodeWaited = "WaitingForNodes"
	// ReasonNodeSilent : a node has had no ready agent for a while, so its state is unknown.
	ReasonNodeSilent = "NodeSilent"
	// ReasonNodeLeftOut : a node has no tunnel address of its own, so other nodes do not reach its pods.
	ReasonNodeLeftOut = "NodeLeftOut"
	// ReasonTunnelAddress : a node's ktsnd does not send from the tunnel address of the Node, so other nodes drop its frames.
	ReasonTunnelAddress = "TunnelAddress"
	// ReasonPeerSilent : a node has received nothing from another one for more than 42 s; the message names both.
	ReasonPeerSilent = "PeerSilent"
	// ReasonPeersUnknown : no other node has been heard of yet.
	ReasonPeersUnknown = "PeersUnknown"
	// ReasonHostUnchecked : the settings of the node cannot be checked; the message has the cause.
	ReasonHostUnchecked = "HostUnchecked"
	// ReasonMultusMissing : the cluster has no NetworkAttachmentDefinitions.
	ReasonMultusMissing = "MultusMissing"
	// ReasonInUse : the network was deleted and still has pods.
	ReasonInUse = "InUse"
	// ReasonOverlaps : an older network has the VNI or a part of the range, or pods, Services or nodes of the cluster have a part of the range.
	ReasonOverlaps = "Overlaps"
	// ReasonPortReserved : spec.port is the UDP port of encrypted tunnels, the chart's encryption.port.
	ReasonPortReserved = "PortReserved"
	// ReasonSpanOfHub : the network has spec.span, which only a hub reads.
	ReasonSpanOfHub = "SpanOfHub"
	// ReasonMTUTooLarge : spec.mtu is too large for the uplinks of some nodes.
	ReasonMTUTooLarge = "MTUTooLarge"
	// ReasonHubRenewed : the hub renews its heartbeat.
	ReasonHubRenewed = "HubRenewed"
	// ReasonHubSilent : the hub has not renewed its heartbeat for a while.
	ReasonHubSilent = "HubSilent"
	// ReasonHubNeverSeen : the cluster has no heartbeat of the hub yet.
	ReasonHubNeverSeen = "HubNeverSeen"
	// ReasonSelectorInvalid : the network's namespaceSelector is invalid; the message has the reason.
	ReasonSelectorInvalid = "SelectorInvalid"
	// ReasonNamespaceNotSelected : pods name the network, but its namespaceSelector does not select their namespace. They are not counted.
	ReasonNamespaceNotSelected = "NamespaceNotSelected"
	// ReasonRelayAway : a captured interface has no relay, so its frames wait and are then dropped. The message has the reason.
	ReasonRelayAway = "RelayAway"
	// ReasonKtsndTooOld : the node's ktsnd is of a release that takes no captured frames.
	ReasonKtsndTooOld = "KtsndTooOld"
	// ReasonKernelPath : ktsnd does not take captured frames without a transmit time. They leave through the kernel, or are dropped if the
	// schedule closes their gate.
	ReasonKernelPath = "KernelPath"
	// ReasonClockHoldover : the node's clock is no longer synchronised, and still accurate enough.
	ReasonClockHoldover = "ClockHoldover"
	// ReasonClockUnsynchronized : the error of the node's clock may exceed the network's limit.
	ReasonClockUnsynchronized = "ClockUnsynchronized"
	// ReasonClockUnknown : no program that synchronises the node's clock was found, or its error is not known yet.
	ReasonClockUnknown = "ClockUnknown"
	// ReasonTwoClockMasters : two programs of the node set the same clock.
	ReasonTwoClockMasters = "TwoClockMasters"
	// ReasonClockAwaited : a schedule waits for the clocks of the nodes that the message names.
	ReasonClockAwaited = "ClockAwaited"
	// ReasonClocksDiffer : nodes with good clocks follow different sources, or have different offsets TAI - UTC, so the difference between
	// their clocks is unknown.
	ReasonClocksDiffer = "ClocksDiffer"
	// ReasonServiceMissing : a pod's label names a TSNService that does not exist.
	ReasonServiceMissing = "ServiceMissing"
	// ReasonServiceForbidden : a TSNService does not accept the pod in the role of its label; the message has the reason.
	ReasonServiceForbidden = "ServiceForbidden"
	// ReasonLabelInvalid : the value of a label of links is not a valid interface name.
	ReasonLabelInvalid = "LabelInvalid"
	// ReasonServiceInvalid : a Service with the label kubernetsn.io/network gets no addresses; the message has the reason.
	ReasonServiceInvalid = "ServiceInvalid"
	// ReasonNoEndpoint : a service has no ready endpoint in the cluster.
	ReasonNoEndpoint = "NoEndpoint"
	// ReasonNoElement : a chain element has no ready pod.
	ReasonNoElement = "NoElement"
	// ReasonLimitReached : all endpoints of a service have reached the limit of spec.limits.
	ReasonLimitReached = "LimitReached"
	// ReasonChainWaited : the links after the first one of a chain are not up yet.
	ReasonChainWaited = "WaitingForChain"
	// ReasonChainLoop : a chain would lead back to itself, or services wait for each other.
	ReasonChainLoop = "ChainLoop"
	// ReasonNodeUnfit : links cannot end on the node; the message has the reason.
	ReasonNodeUnfit = "NodeUnfit"
	// ReasonLinked : a client has a link.
	ReasonLinked = "Linked"
	// ReasonHealed : a client's link was replaced by a link to a different pod.
	ReasonHealed = "Healed"
	// ReasonUnlinked : a link was removed; the message has the reason.
	ReasonUnlinked = "Unlinked"
	// ReasonForeignAttachment : a NetworkAttachmentDefinition with the network's name was not created by the operator.
	ReasonForeignAttachment = "ForeignAttachment"
)
